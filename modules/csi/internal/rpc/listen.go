package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

const (
	dirMode    = 0o700
	socketMode = 0o600
	// maxSocketPath is sun_path of sockaddr_un without its NUL (unix(7)).
	maxSocketPath = 107
)

// SocketPath reads an endpoint in the form unix:///path.
func SocketPath(endpoint string) (string, error) {
	path, found := strings.CutPrefix(endpoint, "unix://")
	switch {
	case !found:
		return "", fmt.Errorf("endpoint %q: want unix:///path", endpoint)
	case !filepath.IsAbs(path), filepath.Clean(path) != path, filepath.Dir(path) == "/", strings.ContainsRune(path, 0):
		return "", fmt.Errorf("endpoint %q: want an absolute, canonical path in a directory of its own", endpoint)
	case len(path) > maxSocketPath:
		return "", fmt.Errorf("endpoint %q: path has %d bytes, at most %d", endpoint, len(path), maxSocketPath)
	}
	return path, nil
}

// Listen opens the socket for its owner alone. With private it also makes the
// directory, or closes it to others (design.md §11); else the directory is
// somebody else's. A socket that a killed process left is replaced, anything
// else at the path is not.
func Listen(ctx context.Context, path string, private bool) (net.Listener, error) {
	if private {
		if err := privateDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is a %s, not a socket", path, info.Mode().Type())
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove old socket: %w", err)
		}
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("close socket to others: %w", err), l.Close())
	}
	return l, nil
}

func privateDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory of socket: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at directory of socket: %w", err)
	}
	if info.Mode().Perm() == dirMode {
		return nil
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return fmt.Errorf("directory of socket has mode %#o, want %#o: %w", info.Mode().Perm(), dirMode, err)
	}
	return nil
}
