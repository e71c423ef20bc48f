package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"testing"
)

// verified parses a certificate and checks that the authority signed it for
// that use.
func verified(t *testing.T, authority *Authority, pair Pair, use x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Fatalf("certificate and key do not fit: %v", err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Cert) {
		t.Fatal("authority's certificate is not PEM")
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificates(t *testing.T) {
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a server is known by its names and addresses", func(t *testing.T) {
		pair, err := authority.Server("api", []string{"localhost"}, []net.IP{net.IPv4(10, 77, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		cert := verified(t, authority, pair, x509.ExtKeyUsageServerAuth)
		for _, host := range []string{"localhost", "10.77.0.1"} {
			if err := cert.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a client is a Kubernetes user with groups", func(t *testing.T) {
		pair, err := authority.Client("system:node:a", "system:nodes")
		if err != nil {
			t.Fatal(err)
		}
		cert := verified(t, authority, pair, x509.ExtKeyUsageClientAuth)
		if cert.Subject.CommonName != "system:node:a" || !slices.Equal(cert.Subject.Organization, []string{"system:nodes"}) {
			t.Errorf("subject is %s", cert.Subject)
		}
	})
	t.Run("another authority's certificate is not accepted", func(t *testing.T) {
		other, err := NewAuthority("test")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := other.Client("admin")
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(pair.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority.Cert)
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
			t.Error("it is")
		}
	})
}
