package redisbroker

import (
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	// fewQueues is up to how many queues a claim asks without a look, since a look would cost more.
	fewQueues = 4
	// mostAsked bounds the queues of one call: a call for so many has some thousands of keys.
	mostAsked = 64
)

// longestHint is longer than any hint holds: claim.lua. A hint that holds for longer was written before the
// store's clock was set back.
const longestHint = time.Minute

// tokensAsked is how many wake tokens one EXISTS counts. It usually finds none. If it finds some,
// each of these queues needs another EXISTS.
const tokensAsked = 32

// round is the state of a claim's rounds. A round asks the queues of the next shares, as many as may
// be enough to fill the claim. If the claim has many queues, a look comes first, unless the last
// claims found that most queues have jobs. A look sends commands, not a script: they take a fifth of
// the time of a script for the same keys.
type round struct {
	many   bool
	looks  int    // the step of the look that this round is, 1 or 2; 0 if it asks queues
	looked bool   // a look has ended
	alive  bool   // a look has seen that the worker is alive in the first queue
	idle   []bool // by index in claim.queues: the queue has nothing
	asked  []bool // by index in claim.queues: the queue was asked
	least  int    // how many queues a round asks at least, even if fewer may be enough
	rounds int    // how many rounds asked queues
	at     int    // the next share
	now    []int  // queues of this round, by index
	shares []int  // shares of this round, by index
	views  []view // of a look, by group
	steps  []*step
	places [][]int // by step: its queues
}

// view is a look at the queues of one group: the time, the hints about each queue, and the tokens. For
// the first group it also has whether the worker is alive in the first queue.
type view struct {
	places      []int
	time, hints *step
	alive       *step
	tokens      []*step
}

func (v *view) steps() []*step {
	steps := append([]*step{v.time, v.hints}, v.tokens...)
	if v.alive != nil {
		steps = append(steps, v.alive)
	}
	return steps
}

func (t *round) init(queues int, many, plenty bool) {
	t.many = many
	t.idle, t.asked = make([]bool, queues), make([]bool, queues)
	if t.least = queues; many {
		t.least = fewQueues
		if !plenty {
			t.looks = 1
		}
	}
}

// next returns the calls of the next round.
func (c *claim) next(b *Broker) []*step {
	t := &c.round
	t.steps, t.places = t.steps[:0], t.places[:0]
	switch t.looks {
	case 1:
		c.look(b)
	case 2:
		for _, at := range t.now {
			q := b.queue(c.queues[at])
			t.steps = append(t.steps, &step{plain: []any{"exists", q.key("t")}, node: q})
		}
	default:
		c.ask()
	}
	return t.steps
}

// look makes the commands that read the time, and the hints and tokens of the queues that were not
// asked.
func (c *claim) look(b *Broker) {
	t := &c.round
	t.now, t.views = t.now[:0], t.views[:0]
	for at := range c.queues {
		if !t.asked[at] {
			t.now = append(t.now, at)
		}
	}
	for _, places := range c.byGroup(t.now) {
		first := b.queue(c.queues[places[0]])
		v := view{places: places, time: &step{plain: []any{"time"}, node: first}, hints: &step{plain: []any{"mget"}, node: first}}
		for n, at := range places {
			q := b.queue(c.queues[at])
			v.hints.plain = append(v.hints.plain, q.key("tq"))
			if n%tokensAsked == 0 {
				v.tokens = append(v.tokens, &step{plain: []any{"exists"}, node: first})
			}
			last := v.tokens[len(v.tokens)-1]
			last.plain = append(last.plain, q.key("t"))
		}
		if places[0] == c.queueOf[0] {
			v.alive = &step{plain: []any{"hexists", first.key("s"), c.request.worker}, node: first}
		}
		t.views = append(t.views, v)
		t.steps = append(t.steps, v.steps()...)
	}
}

// ask makes a call for each group of the round's queues. Within a call, the script serves the shares
// in order. Several calls divide Max so that the sum never exceeds it: a share is asked for what is
// left if all earlier shares get what they want. Bytes are divided evenly. A queue that is asked for
// no job still answers whether it has more jobs.
func (c *claim) ask() {
	t := &c.round
	groups := c.byGroup(t.now)
	in, place := make(map[int]*step, len(t.now)), make(map[int]int, len(t.now))
	for _, places := range groups {
		s := c.step(0, max(1, c.room/len(groups)))
		for n, at := range places {
			s.queues = append(s.queues, c.queues[at])
			in[at], place[at] = s, n
		}
		t.steps, t.places = append(t.steps, s), append(t.places, places)
	}
	left, most := c.left, make(map[*step]int, len(groups))
	for _, i := range t.shares {
		c.asked[i] = c.want[i]
		if c.spread {
			c.asked[i] = max(0, min(c.want[i], left))
			left -= c.asked[i]
		}
		at := c.queueOf[i]
		s := in[at]
		s.addShare(i, place[at], c.asked[i])
		most[s] += c.asked[i]
		s.args[1] = min(most[s], c.left)
	}
}

// choose selects the shares of the next round, in order: as many as may be enough to fill the claim,
// from at least least queues and at most mostAsked queues. It reports whether there are any. With
// several groups it starts with the first share each time, since shares may have got less than they
// want.
func (c *claim) choose() bool {
	t := &c.round
	t.now, t.shares = t.now[:0], t.shares[:0]
	if c.spread {
		t.at = 0
	}
	in, sum := make(map[int]bool), 0
	for ; t.at < len(c.want); t.at++ {
		at := c.queueOf[t.at]
		if t.idle[at] || t.asked[at] && (c.want[t.at] <= 0 || !c.more[at]) {
			continue
		}
		if !in[at] {
			if len(t.now) >= max(t.least, mostAsked) || len(t.now) >= t.least && sum >= c.left {
				break
			}
			in[at] = true
			t.now = append(t.now, at)
		}
		t.shares = append(t.shares, t.at)
		sum += c.want[t.at]
	}
	for at := range in {
		t.asked[at] = true
	}
	t.least = min(2*t.least, mostAsked)
	return len(t.now) > 0
}

// readNext reads the answers of a round. It reports whether another round follows.
func (c *claim) readNext(b *Broker) bool {
	t := &c.round
	if t.looks > 0 {
		if !c.readLook(b) {
			return true
		}
		return c.choose()
	}
	before, cut := c.learned, false
	for n, s := range t.steps {
		c.readStep(b, s, t.places[n]...)
		cut = cut || s.err != nil
	}
	if c.learned > before {
		return c.learned < maxRounds // repeat this round
	}
	if !t.many && !c.spread {
		return false
	}
	if t.many && !t.looked {
		b.plenty.Store(c.left <= 0)
	}
	for _, i := range t.shares { // if a queue has more jobs than its share got, later shares must wait
		cut = cut || c.asked[i] > 0 && c.more[c.queueOf[i]]
	}
	t.rounds++
	if c.left <= 0 || c.room <= 0 || cut || c.spread && t.rounds >= maxRounds {
		for at, asked := range t.asked {
			c.more[at] = c.more[at] || !asked && !t.idle[at]
		}
		return false
	}
	if t.many && !t.looked {
		t.looks = 1
		return true
	}
	return c.choose()
}

// readLook reads which queues the claim must ask. It reports whether the look is over, that is,
// whether no tokens are left to read one by one. The claim asks the first queue unless the look has
// shown that the worker is alive there. If the look failed, the claim asks all queues.
func (c *claim) readLook(b *Broker) bool {
	t := &c.round
	if t.looks == 2 {
		for n, at := range t.now {
			s := t.steps[n]
			t.idle[at] = s.err == nil && len(s.reply) > 0 && number(s.reply[0]) == 0
		}
	} else if t.now = c.readViews(); len(t.now) > 0 {
		t.looks = 2
		return false
	}
	t.looks, t.looked = 0, true
	busy := 0
	for at := range t.idle {
		if !t.idle[at] {
			busy++
		}
	}
	b.plenty.Store(2*busy >= len(c.queues))
	if first := c.queueOf[0]; !t.asked[first] && !t.alive {
		t.idle[first] = false
	}
	return true
}

// readViews reads the answers to look. It returns the queues whose tokens must be read one by one.
func (c *claim) readViews() (unsure []int) {
	for _, v := range c.round.views {
		if v.failed() {
			continue
		}
		now := broker.Micros(c.request.now)
		if clock, ok := v.time.reply[0].([]any); ok && len(clock) == 2 && c.request.now.IsZero() {
			now = numeral(clock[0])*1_000_000 + numeral(clock[1])
		}
		c.at = max(c.at, now)
		c.round.alive = c.round.alive || v.alive != nil && number(v.alive.reply[0]) == 1
		unsure = append(unsure, c.readHints(&v, now)...)
	}
	return unsure
}

func (v *view) failed() bool {
	for _, s := range v.steps() {
		if s.err != nil || len(s.reply) == 0 {
			return true
		}
	}
	return false
}

// readHints reads the hints about the queues of a group.
func (c *claim) readHints(v *view, now int64) (unsure []int) {
	t := &c.round
	hints, _ := v.hints.reply[0].([]any)
	for n, at := range v.places {
		if n >= len(hints) || hints[n] == nil {
			continue
		}
		first, second, _ := strings.Cut(text(hints[n]), " ")
		switch due := numeral(first); {
		case due >= 0 && due <= now || numeral(second) <= now || numeral(second) > now+longestHint.Microseconds():
			continue
		default:
			c.due[at] = due
		}
		if t.idle[at] = true; number(v.tokens[n/tokensAsked].reply[0]) > 0 {
			unsure = append(unsure, at)
		}
	}
	return unsure
}
