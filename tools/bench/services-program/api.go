package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// The API, as its administrator asks it.
type api struct {
	server string
	client *http.Client
}

// The API that the words of a command name.
func openAPI(command string, words []string) (*api, error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	server, authority := flags.String("server", "", "URL"), flags.String("authority", "", "file")
	certificate, key := flags.String("certificate", "", "file"), flags.String("key", "", "file")
	if err := flags.Parse(words); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool},
		MaxIdleConnsPerHost: 64,
		// With all requests on one connection a large answer holds up the others.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return &api{*server, &http.Client{Transport: transport}}, nil
}

// Sends one request. The answer of a failure is part of the error.
func (one *api) send(method, path string, body []byte) ([]byte, error) {
	const limit = 60 * time.Second
	request, err := http.NewRequest(method, one.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("content-type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("content-type", "application/merge-patch+json")
	}
	client := *one.client
	client.Timeout = limit
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	return answer, err
}
