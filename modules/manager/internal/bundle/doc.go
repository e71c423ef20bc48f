// Package bundle packs what is needed to look into a problem from afar: objects,
// events, the verdict on every volume, and the logs of DISTORT's own pods. It
// never asks for a Secret, and everything that it packs goes through package
// redact.
package bundle
