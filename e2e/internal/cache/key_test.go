package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func sum(t *testing.T, key *Key) string {
	t.Helper()
	got, err := key.Sum()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestKeysOfDifferentInputsDiffer(t *testing.T) {
	keys := map[string]*Key{
		"recipe":                         NewKey("a"),
		"other recipe":                   NewKey("b"),
		"a value":                        NewKey("a").String("x", "1"),
		"another value":                  NewKey("a").String("x", "2"),
		"another name":                   NewKey("a").String("y", "1"),
		"value that looks like two":      NewKey("a").String("x", "1;1:y=1:2"),
		"two values":                     NewKey("a").String("x", "1").String("y", "2"),
		"two values in the other order":  NewKey("a").String("y", "2").String("x", "1"),
		"list":                           NewKey("a").Strings("l", []string{"a", "b"}),
		"list with the border elsewhere": NewKey("a").Strings("l", []string{"ab"}),
		"empty list":                     NewKey("a").Strings("l", nil),
		"list followed by a value":       NewKey("a").Strings("l", []string{"a"}).String("l", "b"),
		"list that swallowed that value": NewKey("a").Strings("l", []string{"a", "b"}).String("m", ""),
	}
	seen := map[string]string{}
	for name, key := range keys {
		got := sum(t, key)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q have one key", name, other)
		}
		seen[got] = name
	}
}

func TestKeyOfFilesDependsOnNamesAndContentOnly(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		write(t, filepath.Join(dir, "a.go"), "package a")
		write(t, filepath.Join(dir, "sub", "b.go"), "package b")
	}
	write(t, filepath.Join(second, "a_test.go"), "package a")
	write(t, filepath.Join(second, "README.md"), "text")
	one, two := sum(t, NewKey("r").Tree(first, "*.go")), sum(t, NewKey("r").Tree(second, "*.go"))
	if one != two {
		t.Errorf("equal sources in two places have keys %s and %s", one, two)
	}
	write(t, filepath.Join(second, "sub", "b.go"), "package c")
	if sum(t, NewKey("r").Tree(second, "*.go")) == one {
		t.Error("changed content has the same key")
	}
}

func TestKeyReportsTheFirstUnreadableInput(t *testing.T) {
	_, err := NewKey("r").File("x", filepath.Join(t.TempDir(), "missing")).String("more", "1").Sum()
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a missing file", err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
