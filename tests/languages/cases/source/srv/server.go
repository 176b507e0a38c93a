// Package server answers.
package server

import (
	"context"
	"net/http"
)

const Version = "1.0"

const (
	StateIdle = iota
	StateBusy
)

var (
	ErrClosed = errors.New("closed")
	registry  = map[string]Handler{}
)

// Handler answers one request.
type Handler interface {
	http.Handler
	Serve(ctx context.Context, request *Request) (*Response, error)
	Close() error
}

type HandlerFunc func(ctx context.Context) error

type ID = string

// Server holds the routes.
type Server struct {
	mux   *http.ServeMux
	state int
}

type (
	Request struct {
		Path string
	}
	Response struct{ Code int }
)

type Cache[K comparable, V any] struct {
	items map[K]V
}

// New makes a server.
func New(options ...Option) *Server {
	server := &Server{mux: http.NewServeMux()}
	for _, option := range options {
		option(server)
	}
	return server
}

func (s *Server) Start(ctx context.Context, addr string) error {
	go func() {
		<-ctx.Done()
	}()
	return http.ListenAndServe(addr, s.mux)
}

func (s Server) String() string { return "server" }

func (c *Cache[K, V]) Get(key K) (V, bool) {
	value, ok := c.items[key]
	return value, ok
}

func Map[T, U any](items []T, f func(T) U) []U {
	var out []U
	for _, item := range items {
		out = append(out, f(item))
	}
	return out
}

func init() {
	registry["x"] = nil
}
