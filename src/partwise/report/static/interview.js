class RatingsPanels {}
