package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/middleware/payload"
)

// A dashboard in an application's own mux, behind its own login.
func ExampleHandler() {
	b := membroker.New()
	defer b.Close()
	loggedIn := func(next http.Handler) http.Handler { return next } // the application's
	mux := http.NewServeMux()

	// begin mount
	board, err := dashboard.New(inspect.New(b), dashboard.Config{Title: "shop, production"})
	if err != nil {
		log.Fatal(err)
	}
	defer board.Close() // before b.Close
	mux.Handle("/ops/jobs/", loggedIn(http.StripPrefix("/ops/jobs", board)))
	// end mount

	web := httptest.NewServer(mux)
	defer web.Close()
	resp, err := http.Get(web.URL + "/ops/jobs/")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.StatusCode, strings.Contains(string(page), "Overview · shop, production"))
	// Output: 200 true
}

type person struct {
	Name     string
	Operator bool
	Support  bool
}

func userOf(r *http.Request) *person { return &person{Name: r.Header.Get("User"), Operator: true} }

// Who may do what.
func ExampleConfig() {
	b := membroker.New()
	defer b.Close()
	codecs := []payload.Codec{payload.Compress(payload.CompressConfig{})}

	// begin authorize
	cfg := dashboard.Config{
		Authorize: func(r *http.Request, action dashboard.Action) (string, error) {
			user := userOf(r) // whom the application's login found
			switch action {
			case dashboard.ActionPayload:
				if !user.Support {
					return user.Name, errors.New("payloads are for support")
				}
			case dashboard.ActionRedrive, dashboard.ActionPause:
				if !user.Operator {
					return user.Name, errors.New("ask the operators")
				}
			default: // and whatever later versions add
				return user.Name, errors.New("not on this dashboard")
			}
			return user.Name, nil
		},
	}
	// end authorize

	// begin decode
	decode := payload.DecodePayloads(codecs...) // those of the handlers
	cfg.Decode = func(ctx context.Context, job *jobs.Job) (payload []byte, err error) {
		err = decode(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			payload = job.Payload()
			return nil
		})).ProcessJob(ctx, job)
		return payload, err
	}
	cfg.TraceURL = "https://tempo.example/trace/{trace}"
	// end decode

	board, err := dashboard.New(inspect.New(b), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer board.Close()
	who, err := cfg.Authorize(httptest.NewRequest(http.MethodGet, "/", nil), dashboard.ActionDelete)
	fmt.Println(who, err)
	// Output: not on this dashboard
}
