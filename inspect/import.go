package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// ImportConfig configures an import. The zero value imports every line
// unchanged.
type ImportConfig struct {
	// Queue is the queue for all jobs; empty means the queue that each line names.
	Queue string
	// Check only reads and checks the lines, and stores nothing.
	Check bool
	// OnProgress is called after each step of some hundred lines.
	OnProgress func(ImportReport)
}

// ImportReport says what an import did. Lines is the sum of Done, Repeated, Refused and
// the empty lines.
type ImportReport struct {
	Lines    int // read so far
	Done     int // jobs that were stored; with Check, jobs whose lines are valid
	Repeated int // jobs that existed already: imported before, or given twice
	Gone     int // of Repeated: only the ID is remembered; the job ran meanwhile, or was deleted
	Refused  int
	// Refusals are the first 100.
	Refusals []LineRefusal
}

// LineRefusal says why a line of an import was refused. Err is one of these:
//
//   - ErrInvalid or ErrTooLarge: the line is not a valid job.
//   - ErrNewerForm: a newer program wrote the line.
//   - ErrDuplicate: another job has its ID, or its unique key; then Holder is that job's ID.
//   - ErrQueueFull: the queue, or the job's key, is at its limit.
//   - ErrWrongState: the job with its ID is held.
type LineRefusal struct {
	Line   int // counted from 1
	Queue  string
	ID     string
	Holder string
	Err    error
}

const (
	maxLine     = 32 << 20 // bytes; more than the largest job needs
	importBatch = 100      // lines in one call
	importBytes = 4 << 20  // bytes of payloads and results that are enough for a call
)

// Import stores the jobs that Export wrote to r, each in its state, with its ID, bytes,
// errors, counts and times. Bad lines are refused and reported with their numbers; the
// others are stored. An import can be repeated: a job that exists is counted and not
// changed. The same holds for a job that ran and left no record, while its queue
// remembers its ID (an hour by default). Jobs that ended hold no unique key. Completed
// and cancelled jobs whose retention is over are accepted and not stored.
//
// An error ends the import; it is ErrUnsupported if the store takes no jobs with a
// history (broker.Limits.NoMove). The report is still valid and says how many lines
// were read. After an error, import the same lines again.
func (i *Inspector) Import(ctx context.Context, r io.Reader, cfg ImportConfig) (report ImportReport, err error) {
	m, err := i.importing(ctx, cfg)
	if err != nil {
		return report, err
	}
	m.report.Lines, err = readJobs(r, func(line int, job broker.NewJob, err error) error {
		m.report.Lines = line
		return m.add(ctx, job, err)
	})
	err = errors.Join(err, m.store(ctx))
	return m.report, err
}

// Restore stores jobs from another source as Import stores those of a file: each in its
// state, with its ID, bytes, errors, counts and times. A job that comes with an error
// is refused with that error; a job without a Restore is refused, too. In the report, a
// line is a job.
func (i *Inspector) Restore(ctx context.Context, from iter.Seq2[broker.NewJob, error], cfg ImportConfig) (report ImportReport, err error) {
	m, err := i.importing(ctx, cfg)
	if err != nil {
		return report, err
	}
	for job, err := range from {
		m.report.Lines++
		if err := m.add(ctx, job, err); err != nil {
			return m.report, err
		}
	}
	err = m.store(ctx)
	return m.report, err
}

func (i *Inspector) importing(ctx context.Context, cfg ImportConfig) (*importing, error) {
	if err := i.check(ctx); err != nil {
		return nil, err
	}
	if err := i.canMove("the store"); err != nil {
		return nil, broker.About(err, "import", cfg.Queue, "")
	}
	return &importing{inspector: i, cfg: cfg}, nil
}

// readJobs calls take with the job of each line of an export, or with the error of a line that
// is not a job; empty lines are left out. It ends with an error of take or of r. lines is how
// many lines it read.
func readJobs(r io.Reader, take func(line int, job broker.NewJob, err error) error) (lines int, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, tooLong, readErr := readLine(in)
		if len(text) > 0 || tooLong {
			lines++
		}
		if text = bytes.TrimSpace(text); len(text) > 0 || tooLong {
			job, err := parseLine(text)
			if tooLong {
				err = fmt.Errorf("%w: the line has more than %d bytes", broker.ErrTooLarge, maxLine)
			}
			if err := take(lines, job, err); err != nil {
				return lines, err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return lines, nil
		case readErr != nil:
			return lines, readErr
		}
	}
}

// readLine reads a line to its end. If the line is longer than maxLine, it returns no text.
func readLine(in *bufio.Reader) (text []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !tooLong {
			text = append(text, part...)
		}
		if len(text) > maxLine {
			text, tooLong = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, tooLong, err
		}
	}
}

type importing struct {
	inspector *Inspector
	cfg       ImportConfig
	report    ImportReport
	batch     []broker.NewJob
	lines     []int // line numbers of the batch
	bytes     int
}

func (m *importing) refuse(f LineRefusal) {
	m.report.Refused++
	if len(m.report.Refusals) < keptRefusals {
		m.report.Refusals = append(m.report.Refusals, f)
	}
}

// add adds a job, or the error that it has instead, and stores the batch when it is full.
func (m *importing) add(ctx context.Context, job broker.NewJob, err error) error {
	number := m.report.Lines
	if m.cfg.Queue != "" {
		job.Queue = m.cfg.Queue
	}
	if err == nil {
		job.Body.GivenID = true // so that a repeated import finds it even after it has run
		err = job.Check(m.inspector.broker.Limits())
	}
	if err == nil && job.Restore == nil {
		err = broker.Invalid("Restore", "is nil; set the state of the job, or enqueue it with a client")
	}
	switch {
	case err != nil:
		m.refuse(LineRefusal{Line: number, Queue: job.Queue, ID: job.ID, Err: err})
		return nil
	case m.cfg.Check:
		m.report.Done++
		return nil
	}
	m.batch, m.lines, m.bytes = append(m.batch, job), append(m.lines, number), m.bytes+sizeOf(&job)
	if len(m.batch) < importBatch && m.bytes < importBytes {
		return nil
	}
	return m.store(ctx)
}

func (m *importing) store(ctx context.Context) error {
	batch, lines := m.batch, m.lines
	m.batch, m.lines, m.bytes = nil, nil, 0
	if len(batch) == 0 {
		return nil
	}
	answers, _, err := m.inspector.restore(ctx, batch)
	for i, a := range answers {
		switch {
		case a.Err == nil && a.Repeated:
			m.report.Repeated++
			if a.Gone {
				m.report.Gone++
			}
		case a.Err == nil:
			m.report.Done++
		default:
			m.refuse(LineRefusal{Line: lines[i], Queue: batch[i].Queue, ID: batch[i].ID, Holder: a.Holder, Err: a.Err})
		}
	}
	if err == nil && m.cfg.OnProgress != nil {
		m.cfg.OnProgress(m.report)
	}
	return err
}

// restoredJob is the answer for one job of restore.
type restoredJob struct {
	Repeated bool        // it existed already, or its ID is remembered
	Gone     bool        // of Repeated: only its ID is remembered
	There    *broker.Job // of Repeated: the job that existed
	Holder   string      // with an error: the holder of its unique key, or of the job
	Err      error
}

// restore stores jobs with their history, in calls of bounded size. It repeats calls
// whose outcome is unknown, which is harmless; sure reports that no call had an unknown
// outcome. With an error there are no answers.
func (i *Inspector) restore(ctx context.Context, batch []broker.NewJob) (answers []restoredJob, sure bool, err error) {
	sure = true
	for len(batch) > 0 {
		n, size := 0, 0
		for n < min(len(batch), importBatch) && (n == 0 || size < importBytes) {
			size += sizeOf(&batch[n])
			n++
		}
		some, repeated, err := i.restoreSome(ctx, batch[:n])
		if err != nil {
			if len(answers) > 0 || repeated {
				err = unknown(ctx, err)
			}
			return nil, false, err
		}
		sure = sure && !repeated
		answers, batch = append(answers, some...), batch[n:]
	}
	return answers, sure, nil
}

// sizeOf returns about how many bytes a job with a history has.
func sizeOf(j *broker.NewJob) int { return len(j.Body.Payload) + len(j.Restore.Head.Result) }

func (i *Inspector) restoreSome(ctx context.Context, batch []broker.NewJob) (answers []restoredJob, repeated bool, err error) {
	var receipts []broker.Receipt
	repeated, err = insist(ctx, func() (err error) {
		receipts, err = call(ctx, i, broker.Broker.Enqueue, broker.EnqueueRequest{Jobs: batch})
		failed := 0
		for _, r := range receipts {
			if broker.StoreFailed(r.Err) {
				failed++
			}
			if err == nil && broker.MayHaveApplied(r.Err) {
				err = r.Err
			}
		}
		if err == nil && failed > 0 && failed == len(receipts) {
			err = receipts[0].Err // the store failed for all queues
		}
		return err
	})
	if err != nil {
		return nil, repeated, err
	}
	answers = make([]restoredJob, len(batch))
	for n, r := range receipts {
		switch {
		case errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == batch[n].ID:
			if answers[n], err = i.same(ctx, &batch[n]); err != nil {
				return nil, true, err
			}
		case r.Err != nil:
			answers[n] = restoredJob{Holder: r.Holder, Err: r.Err}
		}
	}
	return answers, repeated, nil
}

// unknown returns err as an error after which the outcome is unknown. It still says if ctx ended.
func unknown(ctx context.Context, err error) error {
	return errors.Join(fmt.Errorf("%w: %v", broker.ErrOutcomeUnknown, err), ctx.Err())
}

// same reports whether the job that has the ID of j is j, perhaps edited since.
func (i *Inspector) same(ctx context.Context, j *broker.NewJob) (restoredJob, error) {
	there, err := i.Job(ctx, j.Queue, j.ID)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return restoredJob{Repeated: true, Gone: true}, nil
	case err != nil:
		return restoredJob{}, err
	}
	if j.Body.Same(&there.Body) &&
		(j.Restore.CreatedAt.IsZero() || broker.Micros(j.Restore.CreatedAt) == broker.Micros(there.CreatedAt)) {
		return restoredJob{Repeated: true, There: there}, nil
	}
	return restoredJob{Err: fmt.Errorf("%w: another job has this ID", broker.ErrDuplicate)}, nil
}

// insist repeats a call for some seconds while its outcome is unknown or the store
// cannot be reached. repeated reports whether the outcome of a call before the last one
// is unknown; the error covers all calls.
func insist(ctx context.Context, f func() error) (repeated bool, err error) {
	for attempt := 1; ; attempt++ {
		err := f()
		unclear := broker.MayHaveApplied(err)
		switch {
		case err == nil:
			return repeated, nil
		case !broker.StoreFailed(err) || attempt == insistence,
			sleep.For(ctx, time.Duration(attempt*attempt)*100*time.Millisecond) != nil:
			if repeated && !unclear {
				err = unknown(ctx, err)
			}
			return repeated, err
		}
		repeated = repeated || unclear
	}
}

const insistence = 6 // attempts; the pauses between them add up to five and a half seconds

// insistOn carries out an operation that can be repeated without harm; see insist.
func (i *Inspector) insistOn(ctx context.Context, op broker.Operation) (results []broker.OperationResult, err error) {
	_, err = insist(ctx, func() (err error) {
		results, err = i.operate(ctx, op)
		return err
	})
	return results, err
}
