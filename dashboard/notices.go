package dashboard

import (
	"crypto/rand"
	"slices"
	"sync"
)

// notice is a message that a page shows once after a decision.
type notice struct {
	Text  string
	Wrong bool
	id    string
	undo  *undo // nil if the decision cannot be undone
}

// Undo returns the URL that undoes the decision, or "".
func (n *notice) Undo() string {
	if n.undo == nil {
		return ""
	}
	return link("undo", "of", n.id)
}

// notices keeps the newest notices; the URL after a decision names one.
type notices struct {
	mu  sync.Mutex
	all []notice
}

const keptNotices = 200

func (n *notices) add(text string) string { return n.put(notice{Text: text}) }

// way keeps the undo of a bulk operation, and returns its ID.
func (n *notices) way(u *undo) string { return n.put(notice{undo: u}) }

func (n *notices) put(added notice) string {
	added.id = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all = append(n.all, added); len(n.all) > keptNotices {
		n.all = slices.Delete(n.all, 0, 1)
	}
	n.forget()
	return added.id
}

// forget drops the undos of all but the newest notices, and those that have more than
// keptJobs together with newer ones.
func (n *notices) forget() {
	jobs := 0
	for at, one := range slices.Backward(n.all) {
		if one.undo == nil {
			continue
		}
		if jobs += one.undo.jobs(); len(n.all)-at > keptUndos || jobs > keptJobs {
			n.all[at].undo = nil
		}
	}
}

func (n *notices) get(id string) *notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found := n.find(id); found != nil {
		return new(*found)
	}
	return nil
}

// find returns the kept notice with an ID, or nil. The caller holds mu.
func (n *notices) find(id string) *notice {
	if at := slices.IndexFunc(n.all, func(one notice) bool { return one.id == id }); at >= 0 {
		return &n.all[at]
	}
	return nil
}

// take returns the undo of a notice, once.
func (n *notices) take(id string) (u *undo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found := n.find(id); found != nil {
		u, found.undo = found.undo, nil
	}
	return u
}

// putBack returns what is left of an undo that take gave.
func (n *notices) putBack(id string, u *undo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found := n.find(id); found != nil {
		found.undo = u
		n.forget()
	}
}
