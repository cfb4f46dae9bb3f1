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

// Router chooses the server for a request. It asks the store before every request for a session
// that this server does not have. The Router's answer is a hint: the server that then claims the
// session in the store owns it.
type Router struct {
	Member   *Member
	Sessions Locator
	Holds    func(id string) bool // whether this server has a session
}

// Session returns the address of the server that has a session, or that should claim it. text is an
// id or the owner's name for the session. An empty addr means this server. found says whether there
// is such a session.
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
		return r.choose(at.ID, at.Model, at.Numerics), true, nil
	}
	n, known := r.node(at.Node)
	if !known { // The node is a new or a lost server. If it is lost, the claim reports that.
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

// Fresh returns the address of the server that should create a session, among those with the same
// models and arithmetic as this one. Equal keys go to the same server.
func (r *Router) Fresh(key string) (addr string) {
	self := r.Member.Self()
	model := ""
	if len(self.Models) > 0 {
		model = self.Models[0]
	}
	return r.choose(key, model, self.Numerics)
}

func (r *Router) choose(key, model, numerics string) (addr string) {
	chosen, found := Rendezvous(r.Member.Alive(), key, model, numerics)
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
