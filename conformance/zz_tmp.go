package conformance

var layoutRules []Rule
var faultRules []Rule
var wakeRules []Rule
var raceRules []Rule
var modelRules []Rule
