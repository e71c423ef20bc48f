// Package jaeger reads traces from the query API of Jaeger, which its page uses
// (/api/traces).
package jaeger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrNotFound: Jaeger has no such trace, or not yet.
var ErrNotFound = errors.New("trace not found")

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 32 << 20

// Client asks one Jaeger.
type Client struct {
	base *url.URL
	http *http.Client
}

// New returns a client of the Jaeger whose page is at this address, such as
// http://jaeger.observability:16686. A path before /api is kept.
func New(address string, timeout time.Duration) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address of Jaeger %q: %w", address, err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("address of Jaeger %q: want http:// or https:// and a host", address)
	}
	return &Client{base: base, http: &http.Client{Timeout: timeout}}, nil
}

// Trace returns a trace by its ID; ErrNotFound when there is none.
func (c *Client) Trace(ctx context.Context, id string) (Trace, error) {
	traces, err := c.ask(ctx, nil, "api", "traces", id)
	if err != nil {
		return Trace{}, fmt.Errorf("trace %s: %w", id, err)
	}
	if len(traces) == 0 {
		return Trace{}, fmt.Errorf("trace %s: %w", id, ErrNotFound)
	}
	return traces[0], nil
}

// maxFound is how many traces a search returns.
const maxFound = 50

// Find returns the newest traces in which a service has a span with this
// attribute, since a time.
func (c *Client) Find(ctx context.Context, service, key, value string, since, now time.Time) ([]Trace, error) {
	tags, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		return nil, err
	}
	traces, err := c.ask(ctx, url.Values{
		"service": {service}, "tags": {string(tags)}, "limit": {strconv.Itoa(maxFound)},
		"start": {strconv.FormatInt(since.UnixMicro(), 10)}, "end": {strconv.FormatInt(now.UnixMicro(), 10)},
	}, "api", "traces")
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("traces of %s with %s %s: %w", service, key, value, err)
	}
	return traces, nil
}

func (c *Client) ask(ctx context.Context, query url.Values, path ...string) ([]Trace, error) {
	address := c.base.JoinPath(path...)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	var answer answer
	readErr := json.Unmarshal(body, &answer)
	switch {
	case response.StatusCode == http.StatusNotFound && readErr == nil:
		return nil, ErrNotFound
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s: %s", c.base, response.Status, clip(string(body)))
	case readErr != nil:
		return nil, fmt.Errorf("%s answers what is not a trace (is it the address of Jaeger's page?): %w", c.base, readErr)
	case len(answer.Errors) > 0 && len(answer.Data) == 0:
		return nil, fmt.Errorf("%s: %s", c.base, answer.Errors[0].Message)
	}
	traces := make([]Trace, 0, len(answer.Data))
	for _, t := range answer.Data {
		traces = append(traces, t.tree())
	}
	return traces, nil
}

// clip keeps messages short whatever the server sent.
func clip(text string) string {
	const limit = 200
	text = strings.TrimSpace(text)
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}
