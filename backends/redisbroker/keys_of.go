package redisbroker

import (
	"context"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// Keys describes keys of a queue, in one round trip, with a bounded number of steps
// for each key. §33.
func (b *Broker) Keys(ctx context.Context, req broker.KeysRequest) (broker.KeysReply, error) {
	if err := req.Check(b.Limits()); err != nil {
		return broker.KeysReply{}, err
	}
	args := []any{req.Limit, req.Cursor}
	for _, name := range req.Names {
		args = append(args, name)
	}
	s := &step{script: keysScript, queues: []string{req.Queue}, now: nowArg(req.Now), args: args}
	err := b.runOne(ctx, s)
	reply := broker.KeysReply{Now: req.Now}
	if err != nil || s.code != codeDone || len(s.reply) == 0 {
		return reply, broker.About(err, "keys", req.Queue, "")
	}
	reply.Now, reply.Cursor = moment(s.at), text(s.reply[0])
	for list := s.reply[1:]; len(list) >= keyFields; list = list[keyFields:] {
		reply.Keys = append(reply.Keys, keyInfo(list))
	}
	return reply, nil
}

// keyFields is how many fields keys.lua answers for a key.
const keyFields = 9

func keyInfo(list []any) broker.KeyInfo {
	return broker.KeyInfo{Key: text(list[0]), Pending: number(list[1]), Active: number(list[2]), Depth: number(list[3]),
		Oldest: createdIn(text(list[4])), Block: broker.Block(number(list[5])), Until: moment(number(list[6])), Head: text(list[7]),
		Policy: ownPolicy(text(list[8]))}
}

// ownPolicy reads the policy of a key: the values of its rules, in the order of broker.Rules.
func ownPolicy(stored string) (p broker.Policy) {
	rest := stored
	for _, rule := range broker.Rules() {
		if rule.Key && rest != "" {
			var n string
			n, rest, _ = strings.Cut(rest, ",")
			v, _ := strconv.ParseInt(n, 10, 64)
			rule.Set(&p, v)
		}
	}
	return p
}
