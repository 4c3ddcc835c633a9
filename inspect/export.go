package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/seed81422ce9/jobs/broker"
)

// Export writes the selected jobs to w, one per line. Import can recreate them in any
// store, with their IDs, bytes, errors, counts and times:
//
//	{"v":1,"queue":"mail","id":"01J…","type":"email:welcome","state":"dead","payload":"eyJ1c2VyIjoxfQ==",…}
//
// Each line is a JSON object in ASCII with base64 for bytes. Report.Done counts lines.
// Active and held jobs are refused, and so are jobs that cannot be read completely.
// Suppressed dead jobs are included only if the query says so. The report is valid even
// with an error; the lines written until then can be imported.
//
// Selection.PerSecond and Limit apply.
func (s Selection) Export(ctx context.Context, w io.Writer) (Report, error) {
	return s.export(ctx, w, nil)
}

// ExportAndDelete is like Export, and deletes the jobs of each page after flush has
// returned nil. By returning nil, flush promises that the lines written so far are
// durable. Only dead, completed and cancelled jobs can be selected, because no worker
// can start them meanwhile. A job that was redriven or edited between export and
// deletion is refused and stays, although the export has its line. A job whose payload
// is a blob of payload.ClaimCheck is refused with ErrClaimCheck, because the blob is
// deleted after its job.
func (s Selection) ExportAndDelete(ctx context.Context, w io.Writer, flush func() error) (Report, error) {
	if flush == nil {
		flush = func() error { return nil }
	}
	if !s.query.State.Final() || len(s.query.IDs) > 0 {
		err := broker.Invalid("state", "is %v; only a selection by state dead, completed or cancelled can be exported and deleted "+
			"(Move takes others)", s.query.State)
		return Report{}, broker.About(err, "export", s.query.Queue, "")
	}
	return s.export(ctx, w, flush)
}

func (s Selection) export(ctx context.Context, w io.Writer, flush func() error) (report Report, err error) {
	s.query.NoPayload = false
	var lines []byte
	err = s.inSteps(ctx, defaultPage, new(decision), &report, func(_ *Page, chosen []*broker.Job) error {
		lines = lines[:0]
		var refs []broker.Ref
		for _, job := range chosen {
			err := exportable(job)
			ref := job.Ref()
			if flush != nil {
				job.Epoch++ // imported jobs have a later epoch, see exportHolder
				err = cmp.Or(err, claimed(job, "CollectBlobs would delete the blob; export the job without deleting it"))
			}
			if err == nil {
				lines, err = appendLine(lines, job)
			}
			if err != nil {
				report.refuse(Refusal{Queue: job.Queue, ID: job.ID, Err: err})
				continue
			}
			refs = append(refs, ref)
			if len(lines) >= exportBytes {
				if _, err := w.Write(lines); err != nil {
					return err
				}
				lines = lines[:0]
			}
		}
		if _, err := w.Write(lines); err != nil {
			return err
		}
		if flush == nil {
			report.Done += len(refs)
			return nil
		}
		return s.deleteExported(ctx, refs, flush, &report)
	})
	return report, err
}

// exportBytes is how many bytes of lines are kept before they are written: a page of large payloads has a hundred megabytes.
const exportBytes = 1 << 20

// exportHolder is the holder that deletes exported jobs. The store remembers their IDs
// so that it accepts such a job again at a later epoch.
const exportHolder = "export"

func (s Selection) deleteExported(ctx context.Context, refs []broker.Ref, flush func() error, report *Report) error {
	if len(refs) == 0 {
		return nil
	}
	if err := flush(); err != nil {
		return err
	}
	results, err := s.inspector.operate(ctx, broker.Operation{Kind: broker.OpDelete, Refs: refs, Holder: exportHolder})
	report.add(broker.OpDelete, results)
	return err
}

// exportable returns why a job cannot be exported, or nil.
func exportable(job *broker.Job) error {
	err := job.Copyable()
	switch {
	case err == nil && job.State == broker.StateActive:
		return fmt.Errorf("%w: it is active, and its server may finish it", broker.ErrWrongState)
	case err == nil && job.State == broker.StateWaiting:
		return broker.Held(job.Holder)
	}
	return err
}
