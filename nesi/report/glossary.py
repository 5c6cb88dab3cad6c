"""The paper's words, for readers of the report page; docs/glossary.md has more of them."""

GLOSSARY = {
    "ff, r": "feedforward: units look at the input alone; recurrent: they also listen to the class layer.",
    "ff+, r+": "the same with self-labeling.",
    "self-labeling": "a network takes its own answer as the label of an unlabeled point if it is certain enough.",
    "BvSB": "best versus second best: the largest class posterior minus the second largest; how certain is certain.",
    "unit": "one of the C units of the first hidden layer; the paper also says subclass.",
    "field": "what a unit has learned to expect, its row of W, as a picture or a list of words.",
    "iteration": "one pass over the training points.",
}
