package spdkfake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// record is one line of the recordings.
type record struct {
	Name     string          `json:"name"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
}

// exceptions are the exchanges in which the fake is known to differ, and why.
var exceptions = map[string]string{
	"rpc_get_methods":                   "the fake lists the methods that it has",
	"rpc_get_methods.current":           "the fake lists the methods that it has",
	"waitrpc.get_methods_current":       "the fake lists the methods that it has",
	"waitrpc.framework_get_config":      "the fake keeps no configuration of modules",
	"waitrpc.start_init_fails":          "the fake never lacks memory",
	"spdkhost.attach_not_allowed":       "the fake is a target and no initiator",
	"spdkhost.attach":                   "the fake is a target and no initiator",
	"spdkhost.controllers_reconnecting": "the fake is a target and no initiator",
}

// TestFakeAnswersAsSPDKDid sends every recorded request to a fake in the recorded
// state, and compares the answers. Random identities are compared by which of them
// are equal, counters and addresses of clients by their type.
func TestFakeAnswersAsSPDKDid(t *testing.T) {
	r := &replay{t: t, uuids: map[string]string{}}
	total, agreed := 0, 0
	for _, rec := range recordings(t) {
		if enter := scenes[rec.Name]; enter != nil {
			enter(r)
		}
		differs, isExchange := r.exchange(rec)
		if !isExchange {
			continue
		}
		total++
		why, excepted := exceptions[rec.Name]
		switch {
		case differs == nil && excepted:
			t.Errorf("%s: agrees, and is listed as an exception", rec.Name)
		case differs == nil:
			agreed++
		case excepted:
			t.Logf("%s differs: %s", rec.Name, why)
		default:
			t.Errorf("%s: %v", rec.Name, differs)
		}
	}
	t.Logf("%d of %d exchanges agree (%.1f %%), %d differ for a reason that is listed", agreed, total, 100*float64(agreed)/float64(total), len(exceptions))
	if agreed*100 < total*95 {
		t.Errorf("fewer than 95 %% agree")
	}
}

func recordings(t *testing.T) []record {
	t.Helper()
	file, err := os.Open("testdata/recordings.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []record
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) < 500 {
		t.Fatalf("%d recordings", len(all))
	}
	return all
}

// replay is a fake in the middle of the recordings.
type replay struct {
	t     *testing.T
	fake  *Server
	hosts []*Host
	// uuids are the fake's by those of the recordings.
	uuids map[string]string
	// during is done when the next request has arrived.
	during func()
}

// fresh starts another process, with files of 1 GiB and 256 MiB.
func (r *replay) fresh(opts ...Option) {
	socket := filepath.Join(r.t.TempDir(), "s")
	fake, err := Start(socket, append([]Option{WithTransports("TCP"), WithAddresses("127.0.0.1", "::1"), WithHostTimeout(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(fake.Close)
	fake.AddFile("/rec/run/aio0.img", 1<<30)
	fake.AddFile("/rec/run/aio2.img", 256<<20)
	fake.Occupy("TCP", "127.0.0.1", "4499")
	r.fake, r.hosts, r.uuids = fake, nil, map[string]string{}
}

// exchange sends a recorded request. An observation that is none is no exchange.
func (r *replay) exchange(rec record) (differs error, isExchange bool) {
	var request struct {
		ID        json.RawMessage   `json:"id"`
		Method    string            `json:"method"`
		Raw       json.RawMessage   `json:"raw"`
		Pipelined []json.RawMessage `json:"pipelined"`
	}
	if rec.Request[0] != '{' {
		return nil, false
	}
	if err := json.Unmarshal(rec.Request, &request); err != nil {
		return err, true
	}
	switch {
	case request.Raw != nil:
		return r.raw(rec, request.Raw), true
	case request.Pipelined != nil:
		return r.pipelined(rec, request.Pipelined), true
	case request.ID == nil || request.Method == "":
		return nil, false
	}
	got := r.send(r.translate(rec.Request), 1)
	if len(got) != 1 {
		return fmt.Errorf("%d answers", len(got)), true
	}
	return r.same(rec.Response, got[0]), true
}

// send sends bytes on a connection of their own and returns the n answers.
func (r *replay) send(data []byte, n int) []json.RawMessage {
	nc, err := net.Dial("unix", r.fake.Socket())
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	before := r.fake.Calls()
	if _, err := nc.Write(data); err != nil {
		r.t.Fatal(err)
	}
	if r.during != nil {
		for r.fake.Calls() == before {
			runtime.Gosched()
		}
		r.during()
		r.during = nil
	}
	_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	var answers []json.RawMessage
	lines := bufio.NewScanner(nc)
	lines.Buffer(nil, 1<<20)
	for len(answers) < n && lines.Scan() {
		answers = append(answers, bytes.Clone(lines.Bytes()))
	}
	return answers
}

// do is a step that the recordings leave out.
func (r *replay) do(method, params string) {
	r.t.Helper()
	got := r.send([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)), 1)
	if len(got) != 1 || bytes.Contains(got[0], []byte(`"error"`)) {
		r.t.Fatalf("%s %s: %s", method, params, got)
	}
}

func (r *replay) pipelined(rec record, requests []json.RawMessage) error {
	var want struct {
		Answers []map[string]json.RawMessage `json:"in_arrival_order"`
	}
	if err := json.Unmarshal(rec.Response, &want); err != nil {
		return err
	}
	var data []byte
	for _, one := range requests {
		// The recordings leave out what is in every request.
		data = append(data, bytes.Replace(r.translate(one), []byte("{"), []byte(`{"jsonrpc":"2.0",`), 1)...)
	}
	got := r.send(data, len(requests))
	byID := map[string]json.RawMessage{}
	for _, a := range got {
		var id struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal(a, &id); err != nil {
			return err
		}
		byID[string(id.ID)] = a
	}
	for _, a := range want.Answers {
		delete(a, "ms")
		a["jsonrpc"] = json.RawMessage(`"2.0"`)
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := r.same(text, byID[string(a["id"])]); err != nil {
			return fmt.Errorf("answer %s: %w", a["id"], err)
		}
	}
	return nil
}

// raw compares bytes, and whether the connection stays open.
func (r *replay) raw(rec record, request json.RawMessage) error {
	var parts []string
	if json.Unmarshal(request, &parts) != nil {
		parts = make([]string, 1)
		if err := json.Unmarshal(request, &parts[0]); err != nil {
			return err
		}
	}
	var want struct {
		Raw string `json:"raw"`
		End string `json:"end"`
	}
	if err := json.Unmarshal(rec.Response, &want); err != nil {
		return err
	}
	if long := longRequests[rec.Name]; long != nil {
		parts = []string{long()}
	}
	nc, err := net.Dial("unix", r.fake.Socket())
	if err != nil {
		return err
	}
	defer nc.Close()
	for _, p := range parts {
		if _, err := io.WriteString(nc, strings.ReplaceAll(p, "\ufffd", "\xff")); err != nil {
			break // it was closed meanwhile
		}
	}
	if strings.Contains(rec.Name, "halfclose") {
		if err := nc.(*net.UnixConn).CloseWrite(); err != nil {
			return err
		}
	}
	wasOpen := strings.Contains(want.End, "still open")
	_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, len(want.Raw))
	n, _ := io.ReadFull(nc, got) // what is missing shows below
	if wasOpen {
		_ = nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // and nothing more comes
	}
	more, err := io.ReadAll(nc)
	got = append(got[:n], more...)
	open := errors.Is(err, os.ErrDeadlineExceeded)
	if string(got) != want.Raw || open != wasOpen {
		return fmt.Errorf("got %.300q, open %t; recorded %.300q, open %t", got, open, want.Raw, wasOpen)
	}
	return nil
}

// longRequests are those of which the recordings have the beginning only.
var longRequests = map[string]func() string{
	"raw.huge_request_300k": func() string { return longRequest("spdk_get_version", "x", `"`+strings.Repeat("a", 300_000)+`"`) },
	"raw.request_200k":      func() string { return longRequest("bdev_get_bdevs", "name", `"`+strings.Repeat("a", 200_000)+`"`) },
	"raw.many_values":       func() string { return longRequest("bdev_get_bdevs", "name", "["+strings.Repeat("1,", 9_000)+"1]") },
}

func longRequest(method, key, value string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%q:%s}}`, method, key, value)
}

var uuidText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// translate puts the fake's identities in the place of the recorded ones.
func (r *replay) translate(request []byte) []byte {
	return uuidText.ReplaceAllFunc(request, func(u []byte) []byte {
		if mine, ok := r.uuids[string(u)]; ok {
			return []byte(mine)
		}
		return u
	})
}

// volatile are the keys whose values say nothing about behaviour.
var volatile = regexp.MustCompile(`^(cntlid|hostid|thread|tick_rate|ticks|pid|tid|busy|idle|sys|usr|elapsed|peer_address|bytes_.*|num_.*_ops|.*_ticks|(current_)?(admin|io)_qpairs|completed_nvme_io|commit)$`)

// same compares a recorded answer with the fake's.
func (r *replay) same(recorded, got json.RawMessage) error {
	var want, have any
	if err := json.Unmarshal(recorded, &want); err != nil {
		return err
	}
	if err := json.Unmarshal(got, &have); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if err := r.compare("", want, have); err != nil {
		return fmt.Errorf("%w\nrecorded %.400s\ngot      %.400s", err, recorded, got)
	}
	return nil
}

func (r *replay) compare(path string, want, have any) error {
	if reflect.TypeOf(want) != reflect.TypeOf(have) {
		return fmt.Errorf("%s: recorded %v, got %v", path, want, have)
	}
	switch want := want.(type) {
	case map[string]any:
		have := have.(map[string]any)
		if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(a, b) {
			return fmt.Errorf("%s: recorded keys %v, got %v", path, a, b)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if volatile.MatchString(key) && reflect.TypeOf(want[key]) == reflect.TypeOf(have[key]) {
				continue
			}
			if err := r.compare(path+"."+key, want[key], have[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		return r.compareLists(path, want, have.([]any))
	case string:
		return r.compareText(path, want, have.(string))
	}
	if want != have {
		return fmt.Errorf("%s: recorded %v, got %v", path, want, have)
	}
	return nil
}

// compareLists compares as much as the recordings keep of a list.
func (r *replay) compareLists(path string, want, have []any) error {
	length := len(want)
	if length > 0 {
		var left int
		if text, ok := want[length-1].(string); ok {
			if n, _ := fmt.Sscanf(text, "... shortened: %d of %d", &left, &length); n == 2 {
				want = want[:len(want)-1]
			}
		}
	}
	if len(have) != length {
		return fmt.Errorf("%s: recorded %d entries, got %d", path, length, len(have))
	}
	for i := range want {
		if err := r.compare(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareText compares texts; a random identity has to be the same one each time.
func (r *replay) compareText(path, want, have string) error {
	if want == have {
		return nil
	}
	plain := func(s string) string {
		s = strings.ToLower(s)
		if len(s) == 32 && !strings.ContainsAny(s, "-./: ") {
			s = s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
		}
		return s
	}
	w, h := plain(want), plain(have)
	if len(want) != len(have) || !uuidText.MatchString(w) || !uuidText.MatchString(h) {
		return fmt.Errorf("%s: recorded %q, got %q", path, want, have)
	}
	if mine, known := r.uuids[w]; known && mine != h {
		return fmt.Errorf("%s: recorded %q again, which was %q, got %q", path, want, mine, have)
	}
	r.uuids[w] = h
	return nil
}
