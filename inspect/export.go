package inspect

import (
	"context"
	"fmt"
	"io"

	"github.com/seed81422ce9/jobs/broker"
)

// Export writes the selected jobs to w, one a line, for Import to make them
// again in any store, with their IDs, bytes, errors, counts and times:
//
//	{"v":1,"queue":"mail","id":"01J…","type":"email:welcome","state":"dead","payload":"eyJ1c2VyIjoxfQ==",…}
//
// Each line is a JSON object in ASCII with base64 for bytes; its fields are
// named in the operator's manual. Report.Done counts lines. Jobs that run or are
// held are refused, as are those that cannot be read whole; suppressed dead jobs
// belong to the selection only if its query says so. The report is valid beside
// an error; lines may have been written then, and what was written can be
// imported.
//
// With Selection.PerSecond and Limit it is slower, or shorter.
func (s Selection) Export(ctx context.Context, w io.Writer) (Report, error) {
	return s.export(ctx, w, nil)
}

// ExportAndDelete is Export that also deletes the jobs, page by page, after
// flush has returned nil. With that flush promises that the lines written so
// far will last. It takes only dead, completed and cancelled jobs, because no
// worker can start them meanwhile. If a job was redriven or edited between
// export and deletion, it is refused and stays; its line is in the export.
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
			err := copiable(job)
			ref := job.Ref()
			if flush != nil {
				job.Epoch++ // it has gone on when it comes back, see exportHolder
			}
			if err == nil {
				lines, err = appendLine(lines, job)
			}
			if err != nil {
				report.refuse(Refusal{Queue: job.Queue, ID: job.ID, Err: err})
				continue
			}
			refs = append(refs, ref)
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

// exportHolder deletes what went into a file. A store remembers the IDs of such
// jobs so that one that comes back, at a later epoch, is let in.
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

// copiable says why a job cannot be copied.
func copiable(job *broker.Job) error {
	switch {
	case job.Broken != nil:
		return job.Broken
	case job.Newer():
		return broker.ErrNewerForm
	case job.State == broker.StateActive:
		return fmt.Errorf("%w: it is active, and its server may finish it", broker.ErrWrongState)
	case job.State == broker.StateWaiting:
		return broker.Held(job.Holder)
	}
	return nil
}
