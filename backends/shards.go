package backends

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/backends/shardbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// shardURL is one shard of a URL. The URL of a shard cannot itself be shards://.
type shardURL struct {
	shardbroker.Shard
	location location
}

// shards reads the parameters of a URL: join, leave and at say what changes, joined which
// shards joined by an earlier change; each other parameter is a shard's name, with its URL. Errors do not quote the names, since a part of
// a wrongly encoded password may be parsed as a name.
func (l *location) shards() ([]shardURL, error) {
	if l.authority+l.path != "" {
		return nil, refuse("host or path", "is not empty; write shards://?name=url&name=url, special characters percent-encoded")
	}
	join, leave, at, joined := l.take("join"), l.take("leave"), l.take("at"), l.take("joined")
	var switchAt time.Time
	if join+leave+at != "" {
		var err error
		if switchAt, err = time.Parse(time.RFC3339, at); err != nil {
			return nil, refuse("parameter at", "is no time such as 2026-01-31T12:00:00Z; say when shards join or leave")
		}
	}
	var all []shardURL
	urls := make(map[string]bool)
	for i, name := range slices.Sorted(maps.Keys(l.params)) {
		inner, err := parse(l.params.Get(name))
		if err == nil && inner.backend() == shardsBackend {
			err = refuse("scheme", "is shards:// again; name the stores themselves")
		}
		// Two shards in one store would settle each other's jobs. Each memory:// is a store of its own.
		if url := l.params.Get(name); err == nil && urls[url] && inner.backend() != memoryBackend {
			err = refuse("of a shard", "is that of another shard, too; give each one a store, a prefix or a schema of its own")
		} else {
			urls[url] = true
		}
		if err != nil {
			return nil, ofShard(i, err)
		}
		all = append(all, shardURL{shardbroker.Shard{Name: name}, inner})
	}
	for _, change := range []struct {
		parameter, names string
		set              func(*shardURL)
	}{{"join", join, func(s *shardURL) { s.From = switchAt }}, {"leave", leave, func(s *shardURL) { s.Until = switchAt }},
		{"joined", joined, func(s *shardURL) { s.NoMarks = true }}} {
		for name := range strings.SplitSeq(change.names, ",") {
			i := slices.IndexFunc(all, func(s shardURL) bool { return s.Name == name })
			switch {
			case name == "":
			case i < 0:
				return nil, refuse("parameter "+change.parameter, "names a shard that is not in the URL; write only its shards, with commas between")
			default:
				change.set(&all[i])
			}
		}
	}
	if len(all) == 0 {
		return nil, refuse("parameters", "name no shard; write shards://?name=url&name=url, special characters percent-encoded")
	}
	return all, nil
}

func ofShard(i int, err error) error {
	return fmt.Errorf("shard %d, in the order of the names: %w", i+1, err)
}

func openShards(ctx context.Context, l location) (broker.Broker, error) {
	all, err := l.shards()
	if err != nil {
		return nil, err
	}
	var shards []shardbroker.Shard
	for i, s := range all {
		if s.Broker, err = open(ctx, s.location); err != nil {
			err = ofShard(i, err)
			break
		}
		shards = append(shards, s.Shard)
	}
	if err == nil {
		var b *shardbroker.Broker
		if b, err = shardbroker.New(shards...); err == nil {
			return b, nil
		}
	}
	for _, s := range shards {
		_ = s.Broker.Close()
	}
	return nil, err
}

func migrateShards(ctx context.Context, l location) error {
	all, err := l.shards()
	if err != nil {
		return err
	}
	for i, s := range all {
		if s.location.backend() != postgresBackend {
			continue
		}
		if err := migratePostgres(ctx, s.location); err != nil {
			return ofShard(i, err)
		}
	}
	return nil
}
