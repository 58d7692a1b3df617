// Everything in its order; what is below the fold is drawn when it is near.

startTheme();
startVerdict();
startCoefficients();
startMethod();
startFitEvidence();
startPlots();
document.documentElement.dataset.ready = "yes";
