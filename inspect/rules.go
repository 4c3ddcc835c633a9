package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// None is the word that removes a limit. 0 is refused: it could also mean "run nothing".
const None = "none"

var orders = []string{broker.OrderNone: None, broker.OrderStop: "stop", broker.OrderSkip: "skip"}

// RuleText formats the value of a rule for a person. For zero it returns the text that
// says what zero means. ParseRule reads all other texts.
func RuleText(rule *broker.Rule, n int64) string {
	switch {
	case n == 0:
		return rule.Zero
	case rule.Unit == broker.RuleFlag:
		return "yes"
	case rule.Unit == broker.RuleSpan:
		return readable.Span(time.Duration(n) * time.Microsecond)
	case rule.Unit == broker.RuleOrder && int(n) < len(orders):
		return orders[n]
	}
	return strconv.FormatInt(n, 10)
}

// ParseRule parses a person's text for the value of a rule: a whole number, perhaps
// with commas, a span such as 90s, 12h or 7d, yes or no, stop or skip. None and the
// empty text remove the rule and return 0; for a limit, "0" itself is refused. The
// error is ErrInvalid and names the rule.
func ParseRule(rule *broker.Rule, text string) (n int64, err error) {
	text = strings.TrimSpace(text)
	name := strings.ReplaceAll(rule.Name, "_", " ")
	if text == "" || text == None {
		return 0, nil
	}
	switch rule.Unit {
	case broker.RuleFlag:
		if text != "yes" && text != "no" {
			return 0, broker.Invalid(name, "%q is neither yes nor no", text)
		}
		return map[string]int64{"yes": 1}[text], nil
	case broker.RuleOrder:
		at := slices.Index(orders, text)
		if at < 0 {
			return 0, broker.Invalid(name, "%q is none of %s", text, strings.Join(orders, ", "))
		}
		return int64(at), nil
	case broker.RuleSpan:
		d, err := readable.ParseSpan(text)
		if err != nil || d < 0 {
			return 0, broker.Invalid(name, "%q is not a time span; write 90s, 15m, 12h or 7d", text)
		}
		return broker.DurationMicros(d), nil
	}
	n, err = strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	switch {
	case (err != nil || n < 0) && rule.Limit:
		return 0, broker.Invalid(name, "%q is no whole number from 1 on; write %s for no limit", text, None)
	case err != nil || n < 0:
		return 0, broker.Invalid(name, "%q is no whole number from 0 on; write %s for the default", text, None)
	case n == 0 && rule.Limit:
		return 0, broker.Invalid(name, "is 0; write %s for no limit, or pause what is not to run", None)
	}
	return n, nil
}

// Change returns the policy p with the rules that texts gives by name; see ParseRule.
// Removing a rate also removes its time and its burst.
func Change(p Policy, texts map[string]string) (Policy, error) {
	for _, rule := range broker.Rules() {
		text, ok := texts[rule.Name]
		if !ok {
			continue
		}
		n, err := ParseRule(rule, text)
		if err != nil {
			return p, err
		}
		rule.Set(&p, n)
	}
	for name, rate := range map[string]*broker.Rate{"rate": &p.Rate, "key_rate": &p.KeyRate, "retry_rate": &p.RetryRate} {
		if _, given := texts[name]; given && rate.Jobs == 0 {
			*rate = broker.Rate{}
		}
	}
	return p, nil
}
