// Everything in its order.

startTheme();
startVerdict();
startGrid();
startMarginals();
startHow();
startValueTable();
document.documentElement.dataset.ready = "yes";
