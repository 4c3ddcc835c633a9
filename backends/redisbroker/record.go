package redisbroker

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// createdSize is how many bytes at the beginning of a stored body are the time at which
// the job was created: in µs, most significant byte first.
const createdSize = 8

// record returns the job of a stored body and head. A body or head that cannot be read affects only
// this job. The head is read even if the body cannot be read: without its epoch, no settle could end
// the job.
func record(queue, id, body, head string, state broker.State) broker.Job {
	j := broker.Job{Queue: queue, ID: id, State: state}
	var err error
	if j.CreatedAt = createdIn(body); len(body) < createdSize {
		j.Broken = fmt.Errorf("%w: stored body", broker.ErrMalformed)
	} else {
		j.Body, j.Broken = broker.ParseBody([]byte(body[createdSize:])) // a copy, since the caller owns the payload
	}
	if head != "" {
		var stored broker.State
		if stored, j.Head, err = broker.ParseHead([]byte(unsealed(head))); err != nil && j.Broken == nil {
			j.Broken = err
		}
		if err != nil && j.Epoch == 0 {
			j.Epoch = epochOf(head)
		}
		if state == broker.StateNone {
			j.State = stored
		}
	}
	return j
}

// createdIn returns the time of creation with which a body begins, or zero if the text is shorter.
func createdIn(body string) time.Time {
	if len(body) < createdSize {
		return time.Time{}
	}
	return broker.FromMicros(int64(binary.BigEndian.Uint64([]byte(body[:createdSize]))))
}

// epochOf returns the number with which a head begins, for a head whose rest is malformed. Scripts read
// the epoch in the same way.
func epochOf(head string) int64 {
	rest := strings.TrimLeft(head, "0123456789")
	n, _ := strconv.ParseInt(head[:len(head)-len(rest)], 10, 64) // 0 if there is none
	return n
}

// text returns a bulk string of an answer, or "" for anything else.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// textBytes returns the length of all texts of an answer, or of a part of one.
func textBytes(list []any) int {
	n := 0
	for _, v := range list {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []any:
			n += textBytes(v)
		}
	}
	return n
}

// number returns an integer of an answer, or 0 for anything else.
func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// numeral returns a number that an answer has as text.
func numeral(v any) int64 {
	n, _ := strconv.ParseInt(text(v), 10, 64)
	return n
}

// moment returns a time in an answer; -1 stands for none.
func moment(us int64) time.Time {
	if us < 0 {
		return time.Time{}
	}
	return broker.FromMicros(us)
}
