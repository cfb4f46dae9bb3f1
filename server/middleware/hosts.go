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

// Hosts refuses requests that a browser sends for a page of somebody else. Keys keep such pages
// out, since a page does not have one; so Hosts looks at the requests of a server that asks for no
// keys, and at those of a server that was told which names it has.
//
// A request's Host has to be a name of this server: a loopback name or address, the address that
// the connection came to, one of the allowed names, or a name that Kubernetes gives the service of
// an allowed name, with any port. A page that reaches the server by
// DNS rebinding brings the page's own name. A request's Origin has to be the origin that the Host
// names, one whose host is among the allowed names, or one of the named origins.
// (http.CrossOriginProtection lets every GET pass, since sites make their pages of them. The
// exports of this server are GETs.)
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

// checkHosts holds a request's Host and origin against the names that the server has; nil if they
// fit. Clients that are no browsers send no Origin, and those of HTTP/1.0 no Host: no page can make
// a browser do so.
func checkHosts(r *http.Request, allowed, origins []string) *problem.Problem {
	host := hostName(r.Host)
	if host != "" && !isLoopback(host) && !isLocalAddress(r, host) && !isAllowed(host, allowed) &&
		!isService(host, allowed) {
		return problem.Field(api.ProblemHostNotAllowed, "Host", problem.Quoted(r.Host),
			"a name or address of this machine, or one that --allow-host names")
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
			"none, this server's own, or one that --cors-origin or --allow-host names")
	case site != "" && site != "same-origin" && site != "none":
		return problem.Field(api.ProblemOriginNotAllowed, "Sec-Fetch-Site", problem.Quoted(site),
			"same-origin or none")
	}
	return nil
}

// hostName is the name or address of an authority, without its port and the dot of a full name.
func hostName(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isLoopback reports whether a host is this machine under any circumstances.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// isLocalAddress reports whether a host is the very address that the request's connection came to.
func isLocalAddress(r *http.Request, host string) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	addr, err := netip.ParseAddr(host)
	return err == nil && local != nil && addr.Unmap() == local.AddrPort().Addr().Unmap()
}

// isService reports whether a host is how Kubernetes names the service of an allowed name that has
// no dot: NAME.NAMESPACE, NAME.NAMESPACE.svc or NAME.NAMESPACE.svc.cluster.local. No page may have
// such a name. Nobody can register one below svc or local, which are no domains of the public DNS.
// NAME.NAMESPACE is refused where the namespace is also a domain in which anybody can, as dev.
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
	return !registered
}

func isAllowed(host string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return hostName(name) == host })
}
