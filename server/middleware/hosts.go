package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/problem"
)

// Hosts refuses requests that a browser sends on behalf of a foreign page. Such a page has no key,
// so Hosts checks requests only if the server has no keys or has configured host names.
//
// The header Host must name this server: a loopback name or address, the address of the connection,
// an allowed name, or the Kubernetes name of an allowed service. With DNS rebinding, Host has the
// foreign name. The header Origin must have the host and port of the header Host, have an allowed
// host name, or be in the list origins. http.CrossOriginProtection does not suffice, because it
// admits every GET, and a GET can export a session.
func Hosts(
	ring *keys.Ring, allowed, origins []string, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if len(allowed) > 0 || ring == nil || !ring.Required() {
			if p := checkHosts(r, allowed, origins); p != nil {
				problems.Answer(w, r, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkHosts checks a request's headers Host, Origin and Sec-Fetch-Site, and returns nil if they
// are allowed. A missing header is allowed: clients other than browsers send no Origin, and
// HTTP/1.0 clients may send no Host.
func checkHosts(r *http.Request, allowed, origins []string) *problem.Problem {
	host := hostName(r.Host)
	if host != "" && !isLoopback(host) && !isLocalAddress(r, host) && !isAllowed(host, allowed) &&
		!isService(host, allowed) {
		return problem.Field(api.ProblemHostNotAllowed, "Host", problem.Quoted(r.Host),
			"a name or address of this machine, or a host given with --allow-host")
	}
	origin := r.Header.Get("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	from, err := url.Parse(origin)
	switch {
	case isNamed(origin, origins):
		return nil
	case origin != "" && err == nil && from.Host != "" && isAllowed(hostName(from.Host), allowed):
		return nil
	case origin != "" && (err != nil || !strings.EqualFold(from.Host, r.Host)):
		return problem.Field(api.ProblemOriginNotAllowed, "Origin", problem.Quoted(origin),
			"no origin, this server's origin, or an origin given with --cors-origin or "+
				"--allow-host")
	case site != "" && site != "same-origin" && site != "none":
		return problem.Field(api.ProblemOriginNotAllowed, "Sec-Fetch-Site", problem.Quoted(site),
			"same-origin or none")
	}
	return nil
}

// hostName returns the host of a "host:port" string, in lower case and without a final dot.
func hostName(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// isLocalAddress reports whether host is the server's own address of the request's connection.
func isLocalAddress(r *http.Request, host string) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	addr, err := netip.ParseAddr(host)
	return err == nil && local != nil && addr.Unmap() == local.AddrPort().Addr().Unmap()
}

// isService reports whether host is a Kubernetes name of the service of an allowed name without
// dots: NAME.NAMESPACE, NAME.NAMESPACE.svc or NAME.NAMESPACE.svc.cluster.local. A page cannot have
// a name below svc or cluster.local, because nobody can register such domains. isService refuses
// NAME.NAMESPACE if the namespace is a public suffix, such as dev. It also refuses NAME.local,
// because any device in the network can claim this name by multicast DNS (RFC 6762).
func isService(host string, names []string) bool {
	name, rest, _ := strings.Cut(host, ".")
	namespace, zone, full := strings.Cut(rest, ".")
	if name == "" || namespace == "" || !isAllowed(name, names) {
		return false
	}
	if full {
		return zone == "svc" || zone == "svc.cluster.local"
	}
	_, registered := publicsuffix.PublicSuffix(namespace)
	return !registered && namespace != "local"
}

func isAllowed(host string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return hostName(name) == host })
}
