// Command labguest is the first process of the lab's guests. See package
// guestinit.
package main

import (
	"fmt"
	"os"

	"github.com/distort-io/distort/e2e/internal/guestinit"
)

func main() {
	if err := guestinit.Main(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "LAB FAILED:", err)
		os.Exit(1)
	}
}
