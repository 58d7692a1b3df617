// Everything in its order; what is below the fold is drawn when it is near.

startTheme();
startVerdict();
startNetwork();
startNetworkKeys();
startInspector();
startEvidence();
startTables();
startPlots();
document.documentElement.dataset.ready = "yes";
