package system

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// bareRedis keeps a hash of blobs, a list of ready IDs, a sorted
// set of delayed ones, a set of those that this worker holds, and a list with
// at most one token that wakes a worker.
type bareRedis struct {
	client  *redis.Client
	blocked *redis.Client // for waits, without a read timeout
	refuses bool          // refuses jobs whose ID exists
}

// sentinel keeps the set in the fast form.
var sentinel = strings.Repeat("-", 65)

var (
	bareClaim = redis.NewScript(`
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local room = tonumber(ARGV[1])
local ids = room > 0 and redis.call('RPOP', KEYS[2], room) or {}
if #ids < room then
	local late = redis.call('ZRANGE', KEYS[3], '-inf', now, 'BYSCORE', 'LIMIT', 0, room - #ids)
	if #late > 0 then
		redis.call('ZREM', KEYS[3], unpack(late))
		for _, id in ipairs(late) do ids[#ids + 1] = id end
	end
end
local blobs = {}
if #ids > 0 then
	redis.call('SADD', KEYS[4], ARGV[2], unpack(ids))
	blobs = redis.call('HMGET', KEYS[1], unpack(ids))
end
local due = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
return {ids, blobs, due[2] or '0'}`)
	bareSettle = redis.NewScript(`
local held = redis.call('SMISMEMBER', KEYS[4], unpack(ARGV))
local gone = {}
for i, id in ipairs(ARGV) do if held[i] == 1 then gone[#gone + 1] = id end end
if #gone > 0 then
	redis.call('SREM', KEYS[4], unpack(gone))
	redis.call('HDEL', KEYS[1], unpack(gone))
end
return #gone`)
	bareRefuse = redis.NewScript(`
local ids, n = {}, 0
for i = 1, #ARGV, 2 do
	n = n + 1
	ids[n] = ARGV[i]
end
local there = redis.call('HMGET', KEYS[1], unpack(ids))
for i = 1, n do if there[i] then return i end end
redis.call('HSET', KEYS[1], unpack(ARGV))
redis.call('LPUSH', KEYS[2], unpack(ids))
redis.call('LPUSH', KEYS[5], 1)
redis.call('LTRIM', KEYS[5], 0, 0)
return 0`)
	bareRetry = redis.NewScript(`
local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.call('SREM', KEYS[4], unpack(ids))
redis.call('HSET', KEYS[1], unpack(ARGV))
redis.call('LPUSH', KEYS[2], unpack(ids))`)
)

func openBareRedis(refuses bool) func(context.Context, Setup) (System, error) {
	return func(_ context.Context, s Setup) (System, error) {
		opt, err := redis.ParseURL(s.URL)
		if err != nil {
			return nil, err
		}
		opt.MaxRetries = -1
		waits := *opt
		waits.ReadTimeout = -1
		return &bare{setup: s, store: &bareRedis{client: redis.NewClient(opt), blocked: redis.NewClient(&waits), refuses: refuses}}, nil
	}
}

// The keys of the one queue.
var bareKeys = []string{"bare:{q}:d", "bare:{q}:r", "bare:{q}:z", "bare:{q}:a", "bare:{q}:t"}

func (r *bareRedis) prepare(ctx context.Context) error {
	for _, s := range []*redis.Script{bareClaim, bareSettle, bareRetry, bareRefuse} {
		if err := s.Load(ctx, r.client).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (r *bareRedis) put(ctx context.Context, batch []Job) error {
	var blobs, ready []any
	var late []redis.Z
	for i := range batch {
		id := rand.Text()[:20]
		blobs = append(blobs, id, bareBlob(0, batch[i].Payload))
		if at := batch[i].RunAt; at.IsZero() {
			ready = append(ready, id)
		} else {
			late = append(late, redis.Z{Score: float64(at.UnixMilli()), Member: id})
		}
	}
	if r.refuses && len(late) == 0 {
		clash, err := bareRefuse.Run(ctx, r.client, bareKeys, blobs...).Int()
		if err == nil && clash > 0 {
			err = errors.New("an ID stands twice")
		}
		return err
	}
	_, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, bareKeys[0], blobs...)
		if len(ready) > 0 {
			p.LPush(ctx, bareKeys[1], ready...)
		}
		if len(late) > 0 {
			p.ZAdd(ctx, bareKeys[2], late...)
		}
		p.LPush(ctx, bareKeys[4], 1)
		p.LTrim(ctx, bareKeys[4], 0, 0)
		return nil
	})
	return err
}

// bareBlob returns a header of 24 bytes, which begins with the failures, and the
// payload.
func bareBlob(failures int, payload []byte) string {
	var b strings.Builder
	b.Grow(24 + len(payload))
	b.WriteByte(byte(failures))
	b.WriteString(sentinel[:23])
	b.Write(payload)
	return b.String()
}

func (r *bareRedis) turn(ctx context.Context, ended []bareJob, room int, wait time.Duration) (claimed []bareJob, due time.Time, err error) {
	p := r.client.Pipeline()
	if wait > 0 {
		p = r.blocked.Pipeline()
		// A blocking timeout fires up to 100 ms late, so the worker wakes itself.
		defer time.AfterFunc(wait, func() { r.client.LPush(ctx, bareKeys[4], 1) }).Stop()
	}
	var settle, retry []any
	for _, j := range ended {
		if j.failed {
			retry = append(retry, j.id, bareBlob(j.failures+1, j.payload))
		} else {
			settle = append(settle, j.id)
		}
	}
	if len(settle) > 0 {
		bareSettle.EvalSha(ctx, p, bareKeys, settle...)
	}
	if len(retry) > 0 {
		bareRetry.EvalSha(ctx, p, bareKeys, retry...)
	}
	if wait > 0 {
		p.BLPop(ctx, wait+time.Second, bareKeys[4])
	}
	claim := bareClaim.EvalSha(ctx, p, bareKeys, room, sentinel)
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, due, err
	}
	reply, err := claim.Slice()
	if err != nil {
		return nil, due, err
	}
	ids, blobs := reply[0].([]any), reply[1].([]any)
	for i, id := range ids {
		blob := blobs[i].(string)
		claimed = append(claimed, bareJob{id: id.(string), failures: int(blob[0]), payload: []byte(blob[24:])})
	}
	if ms, _ := strconv.ParseInt(reply[2].(string), 10, 64); ms > 0 {
		due = time.UnixMilli(ms)
	}
	return claimed, due, nil
}

func (r *bareRedis) left(ctx context.Context) (int, error) {
	n, err := r.client.HLen(ctx, bareKeys[0]).Result()
	return int(n), err
}

func (r *bareRedis) close() error { return errors.Join(r.client.Close(), r.blocked.Close()) }
