// Command reference writes docs/reference from the code.
package main

import (
	"fmt"
	"os"

	"github.com/distort-io/distort/hack/tools/internal/reference"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func main() {
	tree, err := repo.Open(".")
	if err == nil {
		err = reference.Write(tree)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
