package inspect

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
)

// A handler could not read a plain payload where an encoded one was.
func TestEdit_RefusesPayloadsThatAreEncodedOrElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(membroker.New())
	for name, c := range map[string]struct {
		header, ref string
		says        string
		raw         error
	}{
		"plain":      {},
		"encrypted":  {header: coding.HeaderEncryption, says: "header jobs-encryption"},
		"compressed": {header: coding.HeaderCompression, says: "header jobs-compression"},
		"elsewhere":  {ref: "s3://bucket/key", says: "payload reference"},
		"a blob":     {header: coding.HeaderClaim, ref: "default/x/y", says: "blob", raw: ErrClaimCheck},
	} {
		body := broker.Body{Type: "t", Priority: broker.PriorityNormal, Payload: []byte("old"), PayloadRef: c.ref}
		if c.header != "" {
			body.Headers = map[string]string{c.header: "value"}
		}
		p.put(t, broker.NewJob{Queue: "default", ID: name, Body: body})
		payload := func() string {
			t.Helper()
			j, err := p.Job(t.Context(), "default", name)
			if err != nil {
				t.Fatal(err)
			}
			return string(j.Payload)
		}
		shown := &broker.Job{Queue: "default", ID: name} // as the dashboard passes it
		err := p.Edit(t.Context(), shown, []byte("new"))
		if c.says == "" {
			if err != nil || payload() != "new" {
				t.Errorf("%s: Edit says %v, the payload is %q", name, err, payload())
			}
			continue
		}
		if !errors.Is(err, broker.ErrWrongState) || !strings.Contains(err.Error(), c.says) || payload() != "old" {
			t.Errorf("%s: Edit says %v, the payload is %q; want ErrWrongState about %q", name, err, payload(), c.says)
		}
		want := "new"
		if c.raw != nil {
			want = "old"
		}
		if err := p.EditRaw(t.Context(), shown, []byte("new")); !errors.Is(err, c.raw) || payload() != want {
			t.Errorf("%s: EditRaw says %v, the payload is %q; want %v and %q", name, err, payload(), c.raw, want)
		}
	}
}
