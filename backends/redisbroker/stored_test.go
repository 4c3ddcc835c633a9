package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/storedtest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestStored_KeysOfEachReleaseAreReadAndWorkedOn(t *testing.T) {
	t.Parallel()
	c := client(t)
	storedtest.Run(t, storedtest.Store{
		New: func(t *testing.T) broker.Broker {
			return openAs(t, c, Config{Prefix: testenv.Name(t), Buckets: 2}) // stays 2, whatever a later program is configured with
		},
		Dump: func(t *testing.T, b broker.Broker) string {
			text, err := dumpKeys(c, b.(*Broker).config.Prefix)
			if err != nil {
				t.Fatal(err)
			}
			return text
		},
		Load: func(t *testing.T, dump string) broker.Broker {
			prefix := testenv.Name(t)
			if err := loadKeys(t.Context(), c, prefix, dump); err != nil {
				t.Fatal(err)
			}
			return openAs(t, c, Config{Prefix: prefix})
		},
	})
}

// dumpKeys returns a line for each key, and indented lines for its contents. It leaves out
// the groups of queues, which follow from the prefix.
func dumpKeys(c *redis.Client, prefix string) (string, error) {
	kinds, keys := make(map[string]string), make(map[string]string) // by name in the dump
	err := walk(c, prefix, func(_ *redis.Client, key, kind string) error {
		name := strings.TrimPrefix(key, prefix)
		if queue := queueOfKey(prefix, key); queue != "" {
			name = groupless + queue + ":" + strings.TrimPrefix(key, baseOf(prefix, queue))
		}
		for n, tag := range tagsOf(prefix) {
			if rest, ok := strings.CutPrefix(name, ":{"+tag+"}:"); ok {
				name = fmt.Sprintf(":{group %d}:%s", n, rest)
			}
		}
		kinds[key], keys[name] = kind, key
		return nil
	})
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err != nil {
			return "", err
		}
		key := keys[name]
		fmt.Fprintf(&b, "%s %q\n", kinds[key], name)
		var lines []string
		if lines, err = held(c, key, kinds[key]); kinds[key] != "list" {
			slices.Sort(lines)
		}
		for _, line := range lines {
			b.WriteString("\t" + line + "\n")
		}
	}
	return b.String(), err
}

// groupless is the beginning of a queue's keys in a dump.
const groupless = ":{}:"

// held returns the contents of a key.
func held(c *redis.Client, key, kind string) (lines []string, err error) {
	ctx := context.Background()
	var values []string
	switch kind {
	case "hash":
		var fields map[string]string
		fields, err = c.HGetAll(ctx, key).Result()
		for field, value := range fields {
			lines = append(lines, fmt.Sprintf("%q %q", field, value))
		}
		return lines, err
	case "zset":
		var members []redis.Z
		members, err = c.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, m := range members {
			lines = append(lines, fmt.Sprintf("%q %q", m.Member, strconv.FormatFloat(m.Score, 'g', -1, 64)))
		}
		return lines, err
	case "list":
		values, err = c.LRange(ctx, key, 0, -1).Result()
	case "set":
		values, err = c.SMembers(ctx, key).Result()
	case "string":
		values = make([]string, 1)
		values[0], err = c.Get(ctx, key).Result()
	default:
		err = fmt.Errorf("%s is a %s", key, kind)
	}
	for _, value := range values {
		lines = append(lines, strconv.Quote(value))
	}
	return lines, err
}

// loadKeys creates the keys of a dump.
func loadKeys(ctx context.Context, c *redis.Client, prefix, dump string) error {
	var kind, key string
	p := c.Pipeline()
	for text := range strings.Lines(dump) {
		rest := strings.TrimSpace(text)
		inside := text[0] == '\t'
		if !inside {
			kind, rest, _ = strings.Cut(rest, " ")
		}
		var words []string
		for rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			words = append(words, word)
			rest = strings.TrimSpace(rest[len(quoted):])
		}
		switch {
		case !inside:
			key = prefix + words[0]
			if name, ok := strings.CutPrefix(words[0], ":{group "); ok {
				number, name, _ := strings.Cut(name, "}:")
				n, err := strconv.Atoi(number)
				if err != nil {
					return fmt.Errorf("%w: %s", err, text)
				}
				key = fmt.Sprintf("%s:{%s}:%s", prefix, tagsOf(prefix)[n], name)
			}
			if name, ok := strings.CutPrefix(words[0], groupless); ok {
				end := strings.LastIndexByte(name, ':')
				key = baseOf(prefix, name[:end]) + name[end+1:]
			}
		case kind == "hash":
			p.HSet(ctx, key, words[0], words[1])
		case kind == "zset":
			p.Do(ctx, "zadd", key, words[1], words[0])
		case kind == "list":
			p.RPush(ctx, key, words[0])
		case kind == "set":
			p.SAdd(ctx, key, words[0])
		default:
			p.Set(ctx, key, words[0], 0)
		}
	}
	_, err := p.Exec(ctx)
	return err
}
