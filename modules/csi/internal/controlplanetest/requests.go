package controlplanetest

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Requests records what a client asks of the API server, but for watches and
// discovery.
type Requests struct {
	mu   sync.Mutex
	seen []string
}

// Record makes the configuration's clients tell r.
func (r *Requests) Record(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.URL.Query().Get("watch") == "" {
				r.add(request)
			}
			return next.RoundTrip(request)
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// add notes the method and the resource, with its name where there is one.
func (r *Requests) add(request *http.Request) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(parts) < 4 {
		// Discovery of a group (/apis/GROUP/VERSION), once per process.
		return
	}
	resource := request.URL.Path
	for i, part := range parts {
		if part == "nvmepartitions" || part == "volumes" || part == "snapshots" || part == "nvmevolumeattachments" {
			resource = strings.Join(parts[i:], "/")
			if i+1 < len(parts) {
				resource = part + "/NAME" + strings.TrimPrefix(strings.Join(parts[i+1:], "/"), parts[i+1])
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, request.Method+" "+resource)
}

// Take returns what was recorded since the last Take.
func (r *Requests) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := slices.Clone(r.seen)
	r.seen = nil
	return seen
}
