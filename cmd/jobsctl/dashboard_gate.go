package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// gate decides which requests reach the dashboard.
type gate struct {
	local          bool     // the dashboard listens on a loopback address
	hosts          []string // names under which browsers open it
	userHeader     string   // in which a proxy names the user
	user, password string
	token          string // in the printed address; exchanged for the cookie
	cookie         string
}

const tokenParam = "token"

// cookieName returns the name of the cookie for a host. It has the port, because
// browsers send a cookie to every port of a host: the dashboards of two stores on one
// machine would replace each other's.
func cookieName(host string) string {
	_, port, _ := net.SplitHostPort(host)
	return strings.TrimSuffix("jobs-dashboard-"+port, "-")
}

func (g *gate) newToken() { g.token, g.cookie = rand.Text(), rand.Text() }

// query returns the query part of the printed address.
func (g *gate) query() string {
	if g.token == "" {
		return ""
	}
	return "?" + tokenParam + "=" + g.token
}

// guard returns a handler that passes admitted requests to h.
func (g *gate) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Referrer-Policy", "same-origin") // as the dashboard
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case !g.answersTo(r.Host):
			// DNS rebinding: the name of another site resolves to this machine.
			http.Error(w, "This dashboard does not answer to this name. Open it as localhost or 127.0.0.1, or start it with --host NAME.",
				http.StatusMisdirectedRequest)
		case g.userHeader != "" && !g.named(r):
			http.Error(w, "The user is missing. Open this dashboard through its proxy, which must name the user, once, in the header "+
				g.userHeader+".", http.StatusUnauthorized)
		case g.user != "" && !g.known(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="jobs", charset="UTF-8"`)
			http.Error(w, "Enter name and password.", http.StatusUnauthorized)
		case g.token != "" && same(r.URL.Query().Get(tokenParam), g.token):
			http.SetCookie(w, &http.Cookie{Name: cookieName(r.Host), Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			page := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			w.Header().Set("Location", "./"+url.PathEscape(page)) // without the secret
			w.WriteHeader(http.StatusSeeOther)
		case g.token != "" && !g.admitted(r):
			http.Error(w, "The secret is missing. Open the address that was printed when the dashboard was started.",
				http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// named reports whether the proxy named the user. A proxy that adds its header, instead of replacing the one that the
// client sent, would let the client choose the name.
func (g *gate) named(r *http.Request) bool {
	users := r.Header.Values(g.userHeader)
	return len(users) == 1 && strings.TrimSpace(users[0]) != ""
}

func (g *gate) known(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && same(user, g.user) && same(password, g.password)
}

func (g *gate) admitted(r *http.Request) bool {
	c, err := r.Cookie(cookieName(r.Host))
	return err == nil && same(c.Value, g.cookie)
}

// same compares in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// answersTo reports whether the dashboard may answer a request for a host. Another site
// can point its own name at this machine, but not localhost or an address.
func (g *gate) answersTo(hostPort string) bool {
	host := hostPort
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	named := func(name string) bool { return strings.EqualFold(name, host) }
	return !g.local && len(g.hosts) == 0 || ip != nil && ip.IsLoopback() || named("localhost") || slices.ContainsFunc(g.hosts, named)
}
