package jobs_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// Probes for an orchestrator, on a mux of the application's.
func ExampleServer_Health() {
	b := membroker.New()
	defer b.Close()
	server, err := jobs.NewServer(b, jobs.Config{})
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/", server.Health())
	web := httptest.NewServer(mux) // in a program: http.ListenAndServe("127.0.0.1:8080", mux)
	defer web.Close()

	probe := func(path string) {
		resp, err := http.Get(web.URL + path)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(path, resp.StatusCode)
	}
	probe("/healthz")
	probe("/readyz") // nobody has started it
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	probe("/healthz")
	// Output:
	// /healthz 200
	// /readyz 503
	// /healthz 503
}
