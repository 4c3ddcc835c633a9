package redisbroker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var examinePlan = broker.ExaminePlan{
	Store: []string{"server", "queues", "marks"},
	Queue: []string{"record", "jobs", "heads", "ready", "spans", "line", "scheduled", "retry", "lost", "dead", "causes", "suppressed",
		"completed", "cancelled",
		"leases", "held", "cancels", "workers", "noted", "infos", "ended", "unique keys", "remembered", "keys", "ended keys", "lapses",
		"slots", "key heads", "policies", "blocked",
		"sizes", "twins", "voids", "total"},
}

// examineScripts names the script of each part of a queue.
var examineScripts = map[string]*script{
	"jobs": examineJobsScript, "heads": examineJobsScript,
	"ready": examineEntriesScript, "scheduled": examineEntriesScript, "retry": examineEntriesScript,
	"dead": examineEntriesScript, "causes": examineEntriesScript, "suppressed": examineEntriesScript,
	"completed": examineEntriesScript, "cancelled": examineEntriesScript,
	"sizes": examineEntriesScript, "voids": examineEntriesScript,
	"leases": examineLeasesScript, "held": examineLeasesScript, "cancels": examineLeasesScript, "workers": examineLeasesScript,
	"noted": examineLeasesScript, "infos": examineLeasesScript, "ended": examineLeasesScript,
	"line": examineKeysScript, "spans": examineKeysScript, "ended keys": examineKeysScript, "slots": examineKeysScript,
	"key heads": examineKeysScript, "policies": examineKeysScript, "blocked": examineKeysScript,
	"unique keys": examineNamesScript, "remembered": examineNamesScript, "keys": examineNamesScript, "lapses": examineNamesScript,
}

// Examine makes a step: one script call, which examines and repairs records atomically. Redis has no
// fast command to check whether a job has a ready entry, see examination. So until an examination is
// over, the broker remembers some 100 bytes for each pending job.
func (b *Broker) Examine(ctx context.Context, req broker.ExamineRequest) (broker.Examined, error) {
	if err := req.Check(); err != nil {
		return broker.Examined{}, err
	}
	id, cursor, _ := strings.Cut(req.Cursor, ":")
	if cursor == "" {
		cursor = req.Cursor
	}
	plain := req
	plain.Cursor = cursor
	at, err := examinePlan.Read(&plain)
	if err != nil {
		return broker.Examined{}, err
	}
	e := &examiner{b: b, req: &plain, at: at, Examined: broker.Examined{Queue: at.Queue, Part: at.Part, Now: req.Now}}
	if err := b.usable(ctx); err != nil {
		return e.Examined, broker.About(err, "examine", at.Queue, "")
	}
	next, err := e.step(ctx, id)
	if err != nil {
		return e.Examined, broker.About(err, "examine", at.Queue, "")
	}
	e.Cursor = next
	return e.Examined, nil
}

// examiner is one step of an examination.
type examiner struct {
	broker.Examined
	b   *Broker
	req *broker.ExamineRequest
	at  broker.ExamineCursor
	*examination
}

// step makes the step, and returns the cursor of the next.
func (e *examiner) step(ctx context.Context, id string) (string, error) {
	if e.at.Queue == "" {
		pos, err := e.storePart(ctx)
		if err != nil {
			return "", err
		}
		return e.next(ctx, "", pos)
	}
	if e.at.Part == "record" || e.b.examinations.get(id) == nil {
		// This is the first step of the queue, or this process does not remember the earlier steps, and starts again.
		e.at.Part, e.at.Pos, e.Part = "record", "", "record"
		id = e.b.examinations.begin()
	}
	e.examination = e.b.examinations.get(id)
	pos, over, err := e.queuePart(ctx)
	for _, f := range e.Findings {
		if ofPlaces[f.Code] {
			e.examination.found++
		}
	}
	if err != nil {
		return "", err
	}
	if over {
		e.at.Part = examinePlan.Queue[len(examinePlan.Queue)-1]
	}
	if e.at.Part == examinePlan.Queue[len(examinePlan.Queue)-1] && pos == "" {
		e.b.examinations.end(id)
	}
	return e.next(ctx, id, pos)
}

func (e *examiner) next(ctx context.Context, id, pos string) (string, error) {
	cursor, err := examinePlan.Next(e.req, e.at, pos, func(queue string) (string, error) {
		names, err := e.b.names(ctx)
		slices.Sort(names)
		for _, name := range names {
			if name > queue && broker.CheckQueue(name) == nil {
				return name, nil
			}
		}
		return "", err
	})
	if cursor == "" || err != nil {
		return "", err
	}
	return id + ":" + cursor, nil
}

// queuePart examines a part of a queue. over says that the rest of this queue cannot be examined.
func (e *examiner) queuePart(ctx context.Context) (pos string, over bool, err error) {
	switch e.at.Part {
	case "record":
		return e.record(ctx)
	case "lost":
		return e.lost(ctx)
	case "twins":
		return e.twins(ctx)
	case "total":
		e.total()
		return "", false, nil
	case "voids":
		if e.surplus <= 0 || e.found > 0 && e.at.Pos == "" {
			return "", false, nil
		}
	}
	told, pos, over, err := e.call(ctx, examineScripts[e.at.Part], e.at.Part)
	switch e.at.Part {
	case "jobs":
		e.await(told)
	case "ready", "spans", "line", "scheduled", "retry":
		e.see(told)
	case "sizes":
		if len(told) == 2 {
			e.surplus = number(told[0]) - number(told[1])
		}
	}
	return pos, over, err
}

// ofPlaces has the codes of the findings that explain why the numbers of entries and of jobs differ.
var ofPlaces = map[string]bool{"job-without-entry": true, "job-listed-twice": true,
	"entry-without-job": true, "entry-of-other-epoch": true,
	"entry-malformed": true, "head-differs": true, "body-in-wrong-bucket": true, "lease-without-job": true, "lease-malformed": true,
	"count-differs": true, "void-mark-without-entry": true}

// call calls a script for the part and reads its answer.
func (e *examiner) call(ctx context.Context, script *script, part string, more ...any) (told []any, pos string, over bool, err error) {
	s := &step{script: script, queues: []string{e.at.Queue}, now: nowArg(e.req.Now),
		args: append([]any{part, e.at.Pos, e.req.Limit, e.req.Fix}, more...)}
	return e.read(e.b.runOne(ctx, s), s)
}

func (e *examiner) read(err error, s *step) (told []any, pos string, over bool, _ error) {
	switch {
	case err != nil && s.code == codeNewer:
		e.note("layout-newer", "", err.Error(), "")
		return nil, "", true, nil
	case err != nil:
		return nil, "", false, err
	case s.code == codeBuckets || s.code == codeDone && len(s.reply) < 3:
		return nil, "", true, broker.ErrMalformed
	case s.code != codeDone:
		return nil, "", true, nil // the queue is gone
	}
	e.Now, e.Records = moment(s.at), int(number(s.reply[1]))
	told, _ = s.reply[2].([]any)
	for list := s.reply[3:]; len(list) >= 5; list = list[5:] {
		f := finding(text(list[0]), e.at.Queue, text(list[1]), text(list[2]))
		f.Fixed = number(list[3]) == 1
		if e.req.Fix {
			f.Left = text(list[4])
		}
		e.Findings = append(e.Findings, f)
	}
	return told, text(s.reply[0]), false, nil
}

func finding(code, queue, id, what string) broker.Finding {
	return broker.Finding{FindingKind: kinds.Of(code), Queue: queue, ID: id, What: what}
}

// note adds a finding that has not been repaired.
func (e *examiner) note(code, id, what, left string) {
	f := finding(code, e.at.Queue, id, what)
	if e.req.Fix {
		f.Left = cmp.Or(left, "it cannot be repaired from here")
	}
	e.Findings = append(e.Findings, f)
}

// tokenPause is the time between two checks of a missing wake token: a worker that took it claims at
// once, and leaves another one.
const tokenPause = 100 * time.Millisecond

func (e *examiner) record(ctx context.Context) (pos string, over bool, err error) {
	told, _, over, err := e.call(ctx, examineRecordScript, "record")
	if err != nil || over || len(told) > 0 {
		return "", true, err
	}
	records := e.Records
	told, _, over, err = e.call(ctx, examineRecordScript, "token")
	if err == nil && len(told) == 1 {
		if err = pause(ctx, tokenPause); err != nil {
			return "", false, err
		}
		_, _, over, err = e.call(ctx, examineRecordScript, "token", told[0])
	}
	e.Records += records
	return "", over, err
}
