package membroker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// form writes a record or, if reads is set, reads one. Each form method lists the fields of a
// record once, for both. A field that an old record does not have is zero.
type form struct {
	b     []byte
	reads bool
	err   error
}

func (f *form) int(v *int64) {
	if !f.reads {
		f.b = binary.AppendVarint(f.b, *v)
		return
	}
	n, size := binary.Varint(f.b)
	if size <= 0 {
		f.cut()
	}
	*v, f.b = n, f.b[max(size, 0):]
}

// cut ends the reading of a record. A record may end between two fields: it was written before
// the later fields existed. If it ends within a field, it is malformed.
func (f *form) cut() {
	if len(f.b) > 0 && f.err == nil {
		f.err = broker.ErrMalformed
	}
	f.b = nil
}

func (f *form) bytes(p *[]byte) {
	n := int64(len(*p))
	f.int(&n)
	switch {
	case !f.reads:
		f.b = append(f.b, *p...)
	case n < 0 || n > int64(len(f.b)):
		f.b, f.err = nil, broker.ErrMalformed
	case n > 0:
		*p, f.b = append([]byte(nil), f.b[:n]...), f.b[n:]
	}
}

func (f *form) text(s *string) {
	p := []byte(*s)
	if f.bytes(&p); f.reads {
		*s = string(p)
	}
}

func (f *form) time(t *time.Time) {
	us := broker.Micros(*t)
	if f.int(&us); f.reads {
		*t = broker.FromMicros(us)
	}
}

func (f *form) flag(b *bool) {
	n := int64(0)
	if *b {
		n = 1
	}
	f.int(&n)
	*b = n != 0
}

// small is form.int for a number of a smaller type.
func small[T broker.State | broker.UniqueMode](f *form, v *T) {
	n := int64(*v)
	f.int(&n)
	*v = T(n)
}

func (f *form) bucket(b *broker.Bucket) {
	f.int(&b.At)
	f.int(&b.Used)
}

// policy writes or reads the rules that are set, by name.
func (f *form) policy(p *broker.Policy) {
	set := int64(0)
	for _, r := range broker.Rules() {
		if r.Of(p) != 0 {
			set++
		}
	}
	f.int(&set)
	if f.reads {
		f.readPolicy(p, set)
		return
	}
	for _, r := range broker.Rules() {
		if v := r.Of(p); v != 0 {
			name := r.Name
			f.text(&name)
			f.int(&v)
		}
	}
}

func (f *form) readPolicy(p *broker.Policy, set int64) {
	rules := broker.Rules()
	for ; set > 0 && f.err == nil; set-- {
		name, v := "", int64(0)
		f.text(&name)
		f.int(&v)
		if i := slices.IndexFunc(rules, func(r *broker.Rule) bool { return r.Name == name }); i >= 0 {
			rules[i].Set(p, v)
		} else if f.err == nil {
			f.err = fmt.Errorf("%w: the rule %q of a policy", broker.ErrNewerForm, name)
		}
	}
}

// fence is the highest fence given to an owner of any mark.
type fence int64

func (n *fence) form(f *form) { f.int((*int64)(n)) }

func (m *mark) form(f *form) {
	f.text(&m.Owner)
	f.bytes(&m.Value)
	f.time(&m.Until)
	f.int(&m.Fence)
}

func (q *queue) form(f *form) {
	f.policy(&q.policy)
	f.bucket(&q.starts)
	f.bucket(&q.retries)
	for _, n := range q.totals.Numbers() {
		f.int(n)
	}
}

// form reads of the key's head only its ID: queue.loaded replaces it by the job.
func (l *lane) form(f *form) {
	f.int(&l.no)
	f.policy(&l.own)
	f.bucket(&l.starts)
	head := ""
	if l.head != nil {
		head = l.head.ID
	}
	if f.text(&head); f.reads && head != "" {
		l.head = &job{Job: broker.Job{ID: head}}
	}
	lapses := l.lapse != 0
	f.flag(&lapses)
	if f.int(&l.lapse); lapses {
		l.lapse = max(l.lapse, atOnce)
	}
}

func (w *worker) form(f *form) {
	info := broker.AppendWorkerInfo(nil, &w.WorkerInfo)
	f.bytes(&info)
	f.time(&w.Until)
	f.flag(&w.ended)
	f.int(&w.forget)
	f.int(&w.number)
	if f.bytes(&w.verdicts); f.reads && f.err == nil {
		w.WorkerInfo, f.err = broker.ParseWorkerInfo(info, w.ID, w.Until, 0)
	}
}

// body is the part of a job that does not change while the job runs; it has a record of its own.
type body job

func (j *body) form(f *form) {
	if !f.reads {
		f.b = broker.AppendBody(f.b, &j.Body)
		return
	}
	if j.Body, f.err = broker.ParseBody(append([]byte(nil), f.b...)); f.err == nil && j.Body.Newer() {
		f.err = fmt.Errorf("%w: a field of a job's body", broker.ErrNewerForm)
	}
	f.b = nil
}

func (j *job) form(f *form) {
	var head []byte
	if !f.reads {
		head = broker.AppendHead(nil, j.State, &j.Head)
	}
	if f.bytes(&head); f.reads && f.err == nil {
		j.State, j.Head, f.err = broker.ParseHead(head)
	}
	f.time(&j.CreatedAt)
	f.time(&j.RunAt)
	f.text(&j.Worker)
	f.text(&j.Holder)
	small(f, &j.HeldFrom)
	f.flag(&j.CancelRequested)
	f.int(&j.seq)
	f.int(&j.born)
	f.int(&j.lapse)
}

func (h *hold) form(f *form) {
	f.text(&h.id)
	small(f, &h.mode)
	f.time(&h.until)
	f.text(&h.next)
}

func (p *past) form(f *form) {
	f.time(&p.until)
	f.int(&p.moved)
	f.text(&p.into)
}
