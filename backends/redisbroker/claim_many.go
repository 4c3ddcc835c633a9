package redisbroker

import (
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	// fewQueues are served by one call, whatever they have. To look at so many first
	// would cost more.
	fewQueues = 4
	// mostAsked is how many queues one call is about, which then has some thousands
	// of keys.
	mostAsked = 64
)

// tokensAsked is how many tokens one command asks for. Mostly none is there, and otherwise
// each of them is asked for.
const tokensAsked = 32

// turn is which queues of a claim are asked in a round, where one call serves several:
// those of the next shares that may fill it. Where there are many, a look comes first,
// unless claims found before that most of them have something. It is by plain commands,
// which cost a fifth of a script over as many keys.
type turn struct {
	many   bool
	looks  int    // this round is that of a look, from 1; 0 for none
	looked bool   // there was one
	quiet  []bool // by place in claim.queues: it has nothing
	asked  []bool // likewise
	least  int    // queues to ask in a round
	at     int    // the next share
	now    []int  // queues of this round, by place
	shares []int  // and its shares
	steps  []*step
	due    int64 // when a queue that was not asked may have something
}

func (t *turn) init(queues int, many, plenty bool) {
	t.due, t.many = -1, many
	t.quiet, t.asked = make([]bool, queues), make([]bool, queues)
	if t.least = queues; many {
		t.least = fewQueues
		if !plenty {
			t.looks = 1
		}
	}
}

// next are the calls of the next round.
func (c *claim) next(b *Broker) []*step {
	t := &c.turn
	switch t.looks {
	case 1:
		t.steps = c.look(b)
	case 2:
		t.steps = t.steps[:0]
		for _, at := range t.now {
			t.steps = append(t.steps, &step{plain: []any{"exists", b.queue(c.queues[at]).arg("t")}})
		}
	default:
		s := c.step(c.left, c.room)
		in := make(map[int]int, len(t.now))
		for n, at := range t.now {
			s.queues = append(s.queues, c.queues[at])
			in[at] = n
		}
		for _, i := range t.shares {
			c.asked[i] = c.want[i]
			s.addShare(i, in[c.queueOf[i]], c.want[i])
		}
		t.steps = append(t.steps[:0], s)
	}
	return t.steps
}

// look asks what is noted of the queues that were not asked, the time, and for their
// tokens, some at once.
func (c *claim) look(b *Broker) []*step {
	t := &c.turn
	t.now = t.now[:0]
	notes, tokens := &step{plain: []any{"mget"}}, &step{}
	steps := []*step{{plain: []any{"time"}}, notes}
	for at, name := range c.queues {
		if t.asked[at] {
			continue
		}
		q := b.queue(name)
		notes.plain = append(notes.plain, q.arg("tq"))
		if len(t.now)%tokensAsked == 0 {
			tokens = &step{plain: []any{"exists"}}
			steps = append(steps, tokens)
		}
		tokens.plain = append(tokens.plain, q.arg("t"))
		t.now = append(t.now, at)
	}
	return steps
}

// choose takes the shares of the next round, in their order: as many as may fill the
// claim, of as many queues as are worth a call. It reports false when none is left.
func (c *claim) choose() bool {
	t := &c.turn
	t.now, t.shares = t.now[:0], t.shares[:0]
	in, sum := make(map[int]bool), 0
	for ; t.at < len(c.want); t.at++ {
		at := c.queueOf[t.at]
		if t.quiet[at] || t.asked[at] && (c.want[t.at] <= 0 || !c.more[at]) {
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

// readNext takes the answer of a round in. It reports whether there is another one.
func (c *claim) readNext(b *Broker) bool {
	t := &c.turn
	if t.looks > 0 {
		if !c.readLook(b) {
			return true
		}
		return c.choose()
	}
	before, s := c.learned, t.steps[0]
	c.readStep(b, s, t.now...)
	if c.learned > before {
		return c.learned < maxRounds // the same once more
	}
	if !t.many {
		return false
	}
	if !t.looked {
		b.plenty.Store(c.left <= 0)
	}
	cut := s.err != nil // or a queue has more than its share got: those behind it come later
	for _, i := range t.shares {
		cut = cut || c.want[i] > 0 && c.more[c.queueOf[i]]
	}
	if c.left <= 0 || c.room <= 0 || cut {
		for at, asked := range t.asked {
			c.more[at] = c.more[at] || !asked && !t.quiet[at]
		}
		return false
	}
	if !t.looked {
		t.looks = 1
		return true
	}
	return c.choose()
}

// readLook takes in which queues are to be asked. It reports whether that is known of
// all. The first is asked in any case, which says whether the worker is alive; if the
// look failed, all are.
func (c *claim) readLook(b *Broker) bool {
	t := &c.turn
	for _, s := range t.steps {
		if s.err != nil || len(s.reply) == 0 {
			t.looks, t.looked = 0, true
			clear(t.quiet)
			return true
		}
	}
	if t.looks == 2 {
		for n, at := range t.now {
			t.quiet[at] = number(t.steps[n].reply[0]) == 0
		}
	} else if t.now = c.readNotes(); len(t.now) > 0 {
		t.looks = 2
		return false
	}
	t.looks, t.looked = 0, true
	loud := 0
	for at := range t.quiet {
		if !t.quiet[at] {
			loud++
		}
	}
	b.plenty.Store(2*loud >= len(c.queues))
	if first := c.queueOf[0]; !t.asked[first] {
		t.quiet[first] = false
	}
	return true
}

// readNotes reads what look asked. It returns the queues of which the tokens have to
// be asked for one by one.
func (c *claim) readNotes() (unsure []int) {
	t := &c.turn
	now := broker.Micros(c.request.now)
	if clock, ok := t.steps[0].reply[0].([]any); ok && len(clock) == 2 && c.request.now.IsZero() {
		now = numeral(clock[0])*1_000_000 + numeral(clock[1])
	}
	notes, _ := t.steps[1].reply[0].([]any)
	for n, at := range t.now {
		if n >= len(notes) || notes[n] == nil {
			continue
		}
		first, second, _ := strings.Cut(text(notes[n]), " ")
		switch due := numeral(first); {
		case due >= 0 && due <= now || numeral(second) <= now:
			continue
		case due >= 0 && (t.due < 0 || due < t.due):
			t.due = due
		}
		if t.quiet[at] = true; number(t.steps[2+n/tokensAsked].reply[0]) > 0 {
			unsure = append(unsure, at)
		}
	}
	return unsure
}
