package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/inspect"
)

// snapshot is the result of one look at the store, shared by all pages. It never
// changes.
type snapshot struct {
	seq     int64
	begun   int64     // the number of the look
	taken   time.Time // by this process's clock
	survey  survey
	paces   map[string]pace // by queue
	total   pace
	err     error     // of this look; if it is not nil, survey is from the last look that succeeded
	since   time.Time // when the current series of failed looks began
	message []byte    // what is sent to pages
}

// survey is the data of a look: queues by name, each with its workers, and all workers.
type survey struct {
	Queues  []inspect.QueueInfo
	Workers []inspect.WorkerInfo
}

// of returns the queue with a name, or all queues without one.
func (s survey) of(name string) []inspect.QueueInfo {
	if name == "" {
		return s.Queues
	}
	at := slices.IndexFunc(s.Queues, func(q inspect.QueueInfo) bool { return q.Name == name })
	if at < 0 {
		return nil
	}
	return s.Queues[at : at+1]
}

// now returns the store's time at the look.
func (s survey) now() time.Time {
	if len(s.Queues) == 0 {
		return time.Now()
	}
	return s.Queues[0].Now
}

// poller looks at the store: at intervals while a page listens, otherwise when a page
// is requested.
type poller struct {
	inspector *inspect.Inspector
	interval  time.Duration
	log       *slog.Logger
	closing   context.Context
	running   func() int // bulk operations

	mu      sync.Mutex
	pacer   pacer
	newest  *snapshot
	stale   bool  // something was changed since the last look
	asking  *look // the look under way, or nil
	begun   int64 // number of looks begun
	history []point
	pages   map[chan struct{}]struct{}
	on      bool // run is running
	wg      *sync.WaitGroup
}

const (
	maxPages    = 1000 // listening pages
	maxHistory  = 450  // points of the charts
	lingerTicks = 2    // looks after the last page left, in case another one follows
)

var errTooManyPages = errors.New("too many pages are open")

// listen signals each new snapshot on the channel until leave is called. A slow page
// gets only the newest.
func (p *poller) listen() (news <-chan struct{}, leave func(), err error) {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closing.Err() != nil:
		return nil, nil, errClosed
	case len(p.pages) >= maxPages:
		return nil, nil, errTooManyPages
	}
	p.pages[c] = struct{}{}
	if !p.on {
		p.on = true
		p.wg.Go(p.run)
	} else if p.newest != nil {
		c <- struct{}{}
	}
	return c, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pages, c)
	}, nil
}

// run looks at the store until no page listens any more.
func (p *poller) run() {
	ticks := time.NewTicker(p.interval)
	defer ticks.Stop()
	for idle := 0; ; {
		if _, err := p.look(p.closing); err != nil {
			return // the handler is closing
		}
		p.mu.Lock()
		for c := range p.pages {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		if idle++; len(p.pages) > 0 {
			idle = 0
		}
		if idle > lingerTicks {
			p.on = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		select {
		case <-ticks.C:
		case <-p.closing.Done():
			return
		}
	}
}

// current returns a snapshot not older than an interval. The error is that of ctx.
func (p *poller) current(ctx context.Context) (*snapshot, error) {
	p.mu.Lock()
	s, stale := p.newest, p.stale
	p.mu.Unlock()
	if s != nil && !stale && time.Since(s.taken) < p.interval*3/2 {
		return s, nil
	}
	return p.look(ctx)
}

func (p *poller) last() *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// changed makes the next page look again, after a decision.
func (p *poller) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale, p.asking = true, nil // a look under way may not show the change
}

// look is one call to the store, shared by all requests that arrive during it.
type look struct {
	done  chan struct{}
	found *snapshot // set when it is done
}

// look looks at the store. The error is that of ctx, or says that the handler is
// closed.
func (p *poller) look(ctx context.Context) (*snapshot, error) {
	p.mu.Lock()
	if p.closing.Err() != nil {
		p.mu.Unlock()
		return nil, errClosed
	}
	l := p.asking
	if l == nil {
		l = &look{done: make(chan struct{})}
		p.asking, p.stale = l, false
		p.begun++
		begun := p.begun
		p.wg.Go(func() {
			queues, err := p.inspector.Overview(p.closing)
			if err == nil {
				p.pacer.base(p.closing, p.inspector, queues)
			}
			l.found = p.keep(l, begun, survey{queues, inspect.WorkersOf(queues)}, err)
			close(l.done)
		})
	}
	p.mu.Unlock()
	select {
	case <-l.done:
		return l.found, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closing.Done():
		return nil, errClosed
	}
}

// keep makes a look the newest snapshot, unless a look that began later has ended.
func (p *poller) keep(l *look, begun int64, found survey, err error) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking == l {
		p.asking = nil
	}
	if p.newest != nil && p.newest.begun > begun {
		return p.newest
	}
	s := &snapshot{seq: 1, begun: begun, taken: time.Now(), survey: found, err: err}
	if p.newest != nil {
		s.seq = p.newest.seq + 1
	}
	if err != nil {
		s.since = s.taken
		if p.newest != nil {
			s.survey = p.newest.survey
			if p.newest.err != nil {
				s.since = p.newest.since
			}
		}
		if p.newest == nil || p.newest.err == nil {
			p.log.Warn("jobs dashboard: the store does not answer", "error", err)
		}
	} else {
		if p.newest != nil && p.newest.err != nil {
			p.log.Info("jobs dashboard: the store answers again", "after", s.taken.Sub(p.newest.since).Round(time.Millisecond))
		}
		s.paces, s.total = p.pacer.paces(found.Queues)
	}
	pt := s.point()
	if p.history = append(p.history, pt); len(p.history) > maxHistory {
		p.history = append(p.history[:0], p.history[1:]...)
	}
	s.message, _ = json.Marshal(tick{Seq: s.seq, OK: err == nil, Text: s.trouble(), Bulk: p.running(),
		Interval: p.interval.Milliseconds(), Point: pt})
	p.newest = s
	return s
}

// tick is the event that pages get for a snapshot.
type tick struct {
	Seq      int64  `json:"seq"`
	OK       bool   `json:"ok"`
	Text     string `json:"text"` // what is wrong, if anything
	Bulk     int    `json:"bulk"` // running bulk operations
	Interval int64  `json:"interval"`
	Point    point  `json:"point"`
}

// trouble returns a text if the store does not answer, and otherwise "".
func (s *snapshot) trouble() string {
	if s.err == nil {
		return ""
	}
	older := ""
	if s.survey.Queues != nil {
		older = " The page shows older data."
	}
	return "The store has not answered since " + hms(s.since) + "." + older + " Trying again."
}

// past returns the points that the live charts begin with.
func (p *poller) past() []point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]point{}, p.history...)
}

// sharedPages limits the cost of refreshing pages. Between two looks at the store,
// pages with the same URL share an answer, and at most refreshLimit different ones are
// answered. The others keep what they show until the next look.
type sharedPages struct {
	mu      sync.Mutex
	seq     int64
	answers map[string]listing
	misses  int
}

const refreshLimit = 5

// errBusy makes a page keep what it shows.
var errBusy = &pageError{http.StatusNoContent, "Kept as it is."}

// get returns the answer of ask or, on a refresh, the answer that another page with the same URL got
// since the look seq. Requests by a person always call ask.
func (s *sharedPages) get(address string, seq int64, refresh bool, ask func() (listing, error)) (listing, error) {
	if !refresh {
		return ask()
	}
	s.mu.Lock()
	defer s.mu.Unlock() // one at a time: a waiting request finds the answer of the request before it
	if s.seq < seq {    // a request that waited here since an earlier look gets the newer answer
		s.seq, s.answers, s.misses = seq, make(map[string]listing), 0
	}
	if found, ok := s.answers[address]; ok {
		return found, nil
	}
	if s.misses == refreshLimit {
		return listing{}, errBusy
	}
	s.misses++
	l, err := ask()
	if err == nil {
		s.answers[address] = l
	}
	return l, err
}
