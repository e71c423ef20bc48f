// Package app is distort-csi put together: flags, clients, caches, services
// and sockets. main calls Main, tests call Run with a host of their own.
package app
