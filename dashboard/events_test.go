package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// listen opens a stream of events, and calls f with each tick until f returns true or
// ctx ends.
func (s *site) listen(ctx context.Context, f func(tick) bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"events", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		return fmt.Errorf("events answers %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var one tick
			if err := json.Unmarshal([]byte(data), &one); err != nil {
				return err
			}
			if f(one) {
				return nil
			}
		}
	}
	return ctx.Err()
}

func TestEvents_ManyPagesCostAsMuchAsOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Interval: minInterval})
	s.fill()
	const pages = 50
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var wg sync.WaitGroup
	type heard struct {
		page int
		seq  int64
	}
	news := make(chan heard, 100*pages)
	for page := range pages {
		wg.Go(func() {
			_ = s.listen(ctx, func(one tick) bool {
				news <- heard{page, one.Seq}
				return false
			})
		})
	}
	newest := make(map[int]int64)
	wait := func(seq int64) { // until every page has got the event of this or a later look
		t.Helper()
		for end := time.After(hung); ; {
			behind := pages
			for _, at := range newest {
				if at >= seq {
					behind--
				}
			}
			if behind == 0 {
				return
			}
			select {
			case one := <-news:
				newest[one.page] = one.seq
			case <-end:
				t.Fatalf("%d pages of %d have not heard of look %d", behind, pages, seq)
			}
		}
	}
	wait(5)
	s.faults.Set(nil)
	before := s.handler.poller.last().seq
	wait(before + 10)
	looks, calls := s.handler.poller.last().seq-before, s.faults.Calls("")
	if int64(calls) > looks+1 {
		t.Errorf("%d looks made %d calls with %d pages open, want one each", looks, calls, pages)
	}
	leave()
	wg.Wait()
	eventually(t, func() string {
		s.handler.poller.mu.Lock()
		defer s.handler.poller.mu.Unlock()
		if s.handler.poller.on || len(s.handler.poller.pages) > 0 {
			return "the store is still looked at although every page was left"
		}
		return ""
	})
}

func TestEvents_PagesThatAreOpenedAtOnceShareALook(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Interval: time.Hour})
	s.faults.Set(faulty.Plan{{Method: "Queues", Fault: faulty.Slow(300 * time.Millisecond)}})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { s.get(200, "queues") })
	}
	wg.Wait()
	if n := s.faults.Calls("Queues"); n != 1 {
		t.Errorf("30 pages made %d calls, want one", n)
	}
}

// Lists refresh themselves too. Those with the same URL share an answer; the number of
// others is limited.
func TestEvents_ListsThatRefreshThemselvesAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Interval: time.Hour})
	s.fill()
	s.get(200, "")
	s.faults.Set(nil)
	for range 20 {
		s.get(200, "jobs?state=dead", "HX-Request", "true")
		s.get(200, "job?queue=mail&id=dead-001", "HX-Request", "true")
	}
	if n := s.faults.Calls("Find"); n > 4 {
		t.Errorf("20 pages of two addresses made %d calls of Find; those of one should share them", n)
	}
	kept := 0
	for i := range 20 {
		req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%sjobs?state=dead&type=t%d", s.url, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("HX-Request", "true")
		resp, err := s.client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusNoContent {
			kept++
		}
	}
	if kept != 20-(refreshLimit-2) {
		t.Errorf("%d of 20 pages are to keep what they show, want %d", kept, 20-(refreshLimit-2))
	}
	s.get(200, "jobs?state=dead&type=t19") // a person's request is always answered
}

// While the store is slow, requests of several looks wait for each other. The limit holds for them, too.
func TestEvents_ListsOfSeveralLooksAreLimited(t *testing.T) {
	t.Parallel()
	var shared sharedPages
	asked := 0
	for i := range 40 {
		_, _ = shared.get(fmt.Sprint("jobs?type=", i/2), int64(2-i%2), true, func() (listing, error) {
			asked++
			return listing{}, nil
		})
	}
	if asked != refreshLimit {
		t.Errorf("40 pages of two looks asked the store %d times, want %d", asked, refreshLimit)
	}
}

func TestEvents_RatesAreDifferencesOfTotals(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "first", "email")
	s.worker("w", 10, "mail")
	n := 0
	var last tick
	err := s.listen(t.Context(), func(one tick) bool {
		last = one
		n++
		s.enqueue("mail", fmt.Sprint("j", n), "email")
		held := s.claim("w", "mail", 1)
		s.settle("w", held, broker.Complete(nil))
		s.die("mail", fmt.Sprint("d", n), "email", "no route")
		return one.Point[7] != nil && *one.Point[7] > 0 && *one.Point[9] > 0 && *one.Point[6] > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.Point[1] == nil || *last.Point[1] != 1 {
		t.Errorf("the point has pending %v, want 1", last.Point[1])
	}
	page := s.get(200, "")
	if _, after, ok := strings.Cut(page, "Completed / s</dt><dd>"); !ok || strings.HasPrefix(after, "<span") {
		t.Errorf("the page does not know how many jobs complete: %.200s", after)
	}
	has(t, s.get(200, "live"), "[[1")
	if n := s.faults.Calls("Watch"); n > 0 {
		t.Errorf("Watch was called %d times: rates come from the totals, which cost the store nothing more", n)
	}
}

func TestEvents_AStoreThatGoesAwayIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.fill()
	s.get(200, "")
	s.faults.Set(faulty.Plan{{Fault: faulty.Unavailable}})
	var away tick
	if err := s.listen(t.Context(), func(one tick) bool { away = one; return !one.OK }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(away.Text, "The store has not answered since") || away.Point[1] != nil {
		t.Errorf("the pages are told %+v", away)
	}
	has(t, s.get(200, ""), "The store has not answered since", "The page shows older data", ">37<") // with the last known data
	s.get(503, "job?queue=mail&id=dead-001", "HX-Request", "true")                                  // and the page keeps what it shows
	has(t, s.get(503, "jobs?state=dead"), "The store does not answer")
	s.faults.Set(faulty.Plan{{Method: "Find", Fault: faulty.ReplyLost}})
	has(t, s.get(502, "jobs?state=dead"), "The store did not answer in time.")
	hasNot(t, s.get(502, "jobs?state=dead"), "may have been carried out") // it was a page, no decision
	s.faults.Set(nil)
	if err := s.listen(t.Context(), func(one tick) bool { away = one; return one.OK }); err != nil {
		t.Fatal(err)
	}
	hasNot(t, s.get(200, ""), "does not answer since")
	if log := s.log.String(); strings.Count(log, "the store does not answer\"") != 1 || strings.Count(log, "the store answers again") != 1 {
		t.Errorf("the log says, in place of one line for each change:\n%s", log)
	}
}

func TestEvents_ADashboardOfAStoreThatWasNeverThere(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	s.faults.Set(faulty.Plan{{Fault: faulty.Unavailable}})
	has(t, s.get(503, ""), "The store does not answer", `hx-trigger="jobs-tick`) // it refreshes when the store is back
	s.faults.Set(nil)
	s.handler.poller.changed()
	has(t, s.get(200, ""), ">mail<")
}

func TestEvents_ASlowPageIsDroppedAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	host := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/ops/jobs/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /ops/jobs/events HTTP/1.1\r\nHost: %s\r\n\r\n", host) // and never reads the response
	seen := 0
	if err := s.listen(t.Context(), func(tick) bool { seen++; return seen == 10 }); err != nil {
		t.Fatalf("beside a page that does not read, another hears of %d looks: %v", seen, err)
	}
}

func TestEvents_PagesThatListenAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for range maxPages {
		_, leave, err := s.handler.poller.listen()
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	has(t, s.get(503, "events"), "Too many pages")
}

func TestEvents_WhatAPageDecidedItSeesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything, Interval: time.Hour}) // no looks except for requests
	s.enqueue("mail", "a", "email")
	s.get(200, "queue?name=mail")
	has(t, s.follow(s.post(303, "pause?queue=mail", nil)), ">paused<")
}
