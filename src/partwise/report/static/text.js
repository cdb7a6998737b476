class TextPanels {}
