package filebroker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/storedtest"
)

func TestStored_RecordsOfEachReleaseAreReadAndWorkedOn(t *testing.T) {
	t.Parallel()
	storedtest.Run(t, storedtest.Store{
		New: func(t *testing.T) broker.Broker { return openTest(t, newFile(t)) },
		Dump: func(t *testing.T, b broker.Broker) string {
			f := b.(*Broker).file
			if err := f.synced(t.Context()); err != nil {
				t.Fatal(err)
			}
			text, err := dumpRecords(f.db)
			if err != nil {
				t.Fatal(err)
			}
			return text
		},
		Load: func(t *testing.T, dump string) broker.Broker {
			path := newFile(t)
			if err := loadRecords(path, dump); err != nil {
				t.Fatal(err)
			}
			return openTest(t, path)
		},
	})
}

// dumpRecords writes a line for each bucket of a file, and indented lines for its records.
func dumpRecords(db *bolt.DB) (string, error) {
	var b strings.Builder
	err := db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, part *bolt.Bucket) error {
			fmt.Fprintf(&b, "%q\n", name)
			return part.ForEach(func(key, value []byte) error {
				fmt.Fprintf(&b, "\t%q %q\n", key, value)
				return nil
			})
		})
	})
	return b.String(), err
}

// loadRecords makes a file from a dump.
func loadRecords(path, dump string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		var part *bolt.Bucket
		for text := range strings.Lines(dump) {
			var words []string
			for rest := strings.TrimSpace(text); rest != ""; {
				quoted, err := strconv.QuotedPrefix(rest)
				if err != nil {
					return fmt.Errorf("%w: %s", err, text)
				}
				word, _ := strconv.Unquote(quoted)
				words = append(words, word)
				rest = strings.TrimSpace(rest[len(quoted):])
			}
			var err error
			if text[0] == '\t' {
				err = part.Put([]byte(words[0]), []byte(words[1]))
			} else {
				part, err = tx.CreateBucket([]byte(words[0]))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
