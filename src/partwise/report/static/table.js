class TablePanels {}
