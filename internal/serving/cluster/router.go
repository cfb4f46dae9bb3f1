package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Locator finds sessions. A storage.Shared is a Locator.
type Locator interface {
	Locate(ctx context.Context, owner, text string) (storage.Place, error)
}

// Router chooses the server for a request. For a session that this server does not have, Router
// asks the store at every request. The answer is only a hint: a server owns a session only after it
// has claimed the session in the store.
type Router struct {
	Member   *Member
	Sessions Locator
	Holds    func(id string) bool
}

// Session returns the address of the server that has a session or should claim the session. The
// parameter text is the session's id or the owner's name for the session. An empty addr means this
// server. found reports whether the session exists.
func (r *Router) Session(
	ctx context.Context, owner, text string,
) (addr string, found bool, err error) {
	if r.Holds(text) {
		return "", true, nil
	}
	at, err := r.Sessions.Locate(ctx, owner, text)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return "", false, nil
	case err != nil:
		return "", false, err
	case at.Node == "":
		return r.choose(r.Member.Alive(), at.ID, at.Model, at.Numerics), true, nil
	}
	n, known := r.node(at.Node)
	if !known { // the server may have joined since the list of nodes was last read
		r.Member.Look(ctx)
		n, known = r.node(at.Node)
	}
	if !known {
		return "", true, nil
	}
	return r.addrOf(n), true, nil
}

func (r *Router) node(id string) (n Node, found bool) {
	for _, n := range r.Member.Alive() {
		if n.ID == id {
			return n, true
		}
	}
	return n, false
}

// Alive reports whether the server at an address has a valid lease, as far as this server knows.
func (r *Router) Alive(addr string) bool {
	return slices.ContainsFunc(r.Member.Alive(), func(n Node) bool { return n.Addr == addr })
}

// Fresh returns the address of the server that should create a session; an empty address means this
// server. The chosen server has all models of this server, the same first model and, if possible,
// the same arithmetic. Equal keys give the same server.
func (r *Router) Fresh(key string) (addr string) {
	self := r.Member.Self()
	var able []Node
	for _, n := range r.Member.Alive() {
		if n.servesAll(self.Models) {
			able = append(able, n)
		}
	}
	return r.choose(able, key, "", self.Numerics)
}

// servesAll reports whether a node serves all these models, and has the same first model.
func (n Node) servesAll(models []string) bool {
	for i, model := range models {
		at := slices.Index(n.Models, model)
		if at < 0 || i == 0 && at != 0 {
			return false
		}
	}
	return true
}

func (r *Router) choose(nodes []Node, key, model, numerics string) (addr string) {
	chosen, found := Rendezvous(nodes, key, model, numerics)
	if !found {
		return ""
	}
	return r.addrOf(chosen)
}

func (r *Router) addrOf(n Node) string {
	if n.ID == r.Member.Self().ID {
		return ""
	}
	return n.Addr
}
