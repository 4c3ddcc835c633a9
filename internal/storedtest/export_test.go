package storedtest

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestStored_ExportsOfEachReleaseAreImported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		export(t)
	})
	eachFile(t, "*-export.golden", func(t *testing.T, dump string) {
		synctest.Test(t, func(t *testing.T) { imports(t, dump) })
	})
}

func export(t *testing.T) {
	time.Sleep(time.Until(Start.Add(30 * time.Second))) // an export leaves out jobs that were created after its start
	b := membroker.New()
	defer b.Close()
	Write(t, b)
	lines := exported(t, b)
	if !strings.Contains(lines, `"id":"every field"`) || !strings.Contains(lines, `"id":"dead and suppressed"`) {
		t.Fatalf("the export lacks jobs:\n%s", lines)
	}
	Golden(t, "current-export", lines)
}

func imports(t *testing.T, dump string) {
	time.Sleep(time.Until(Start.Add(30 * time.Second)))
	b := membroker.New()
	defer b.Close()
	(&step{tb: t, b: b}).policies() // they retain ended jobs
	report, err := inspect.New(b).Import(t.Context(), strings.NewReader(dump), inspect.ImportConfig{})
	if err != nil || report.Refused > 0 || report.Done != strings.Count(dump, "\n") {
		t.Fatalf("the import says %+v, %v", report, err)
	}
	bare := regexp.MustCompile(`,"(given_id|epoch)":\w+`) // fields that an import changes: IDs are remembered from then on
	again := strings.Split(bare.ReplaceAllString(exported(t, b), ""), "\n")
	for line := range strings.SplitSeq(bare.ReplaceAllString(dump, ""), "\n") {
		if !slices.Contains(again, line) {
			t.Errorf("after an import no job is as this line says, with or without an epoch:\n%s", line)
		}
	}
}

// exported returns an export of all jobs that can be exported, sorted.
func exported(t *testing.T, b broker.Broker) string {
	t.Helper()
	var all bytes.Buffer
	for _, queue := range Queues {
		for _, state := range broker.States() {
			if state == broker.StateActive || state == broker.StateWaiting {
				continue
			}
			q := inspect.Query{Queue: queue, State: state, Suppressed: true}
			if _, err := inspect.New(b).Select(q).Export(context.Background(), io.Writer(&all)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return strings.Join(slices.Sorted(strings.Lines(all.String())), "")
}
