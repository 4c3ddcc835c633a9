package redisbroker

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// pair is a command and a script that take effect together: the command stores
// what would be dear to pass through Lua, and the script removes it again if it
// refuses it.
type pair struct{ multi, ahead, exec *redis.Cmd }

var multiArgs, execArgs = []any{"multi"}, []any{"exec"}

// queuePair puts the transaction into a pipeline.
func queuePair(ctx context.Context, pipe redis.Pipeliner, c *call) *pair {
	p := &pair{multi: redis.NewCmd(ctx, multiArgs...), ahead: redis.NewCmd(ctx, c.ahead...), exec: redis.NewCmd(ctx, execArgs...)}
	_ = pipe.BatchProcess(ctx, p.multi, p.ahead, c.cmd, p.exec) // nothing is sent yet
	return p
}

// conclude gives the call the script's own answer.
//
// A server that refuses MULTI, as it may by its access list, has run the two
// one after the other. Then, too, the script's answer counts; but if it was
// refused itself, what the command stored is in the way of the next attempt.
func (p *pair) conclude(ctx context.Context, node *redis.Client, c *call) {
	if p.multi.Err() == nil {
		results, err := p.exec.Slice()
		switch {
		case len(results) == 2:
			c.cmd.SetErr(nil)
			if refused, is := results[1].(error); is {
				c.cmd.SetErr(refused)
			} else {
				c.cmd.SetVal(results[1])
			}
			p.ahead.SetErr(nil)
			if refused, is := results[0].(error); is {
				p.ahead.SetErr(refused)
			}
		case p.ahead.Err() != nil: // why the server would not run them
			c.cmd.SetErr(p.ahead.Err())
		case c.cmd.Err() == nil:
			c.cmd.SetErr(err)
		}
	}
	if answered(c.cmd.Err()) && p.ahead.Err() == nil && (p.multi.Err() != nil || p.exec.Err() == nil) {
		c.undo(ctx, node)
	}
}

// undo removes what the command ahead of a script has stored in a hash.
func (c *call) undo(ctx context.Context, node *redis.Client) {
	args := []any{"hdel", c.ahead[1]}
	for i := 2; i < len(c.ahead); i += 2 {
		args = append(args, c.ahead[i])
	}
	_ = node.Do(ctx, args...).Err() // as good as it gets
}
