package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// The first byte of a TLS record that is part of a handshake. Source: RFC 8446, 5.1.
const handshakeType = 0x16

var (
	endOfHead  = []byte("\r\n\r\n")
	closeWords = []byte("Connection: close")
)

// Answers every request with 200 and `ok`, over TLS or without on the same port, as the client begins. vipnat's and
// HAProxy's probes take it for an apiserver that is ready.
func serve(address, name, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}}
	// Signs of life on idle connections are switched on by calls of their own.
	listener, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: %s\r\nContent-Length: 2\r\n\r\nok", name))
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go answerAll(connection, settings, answer)
	}
}

func answerAll(plain net.Conn, settings *tls.Config, answer []byte) {
	defer plain.Close()
	buffer := make([]byte, 1024)
	length, err := plain.Read(buffer)
	if err != nil {
		return
	}
	connection := plain
	if buffer[0] == handshakeType {
		begun := &begunConn{Conn: plain, rest: append([]byte(nil), buffer[:length]...)}
		secure := tls.Server(begun, settings)
		// It says that it closes.
		defer secure.Close()
		connection = secure
		length = 0
	}
	for {
		for !bytes.HasSuffix(buffer[:length], endOfHead) {
			if length == len(buffer) {
				return
			}
			more, err := connection.Read(buffer[length:])
			if err != nil {
				return
			}
			length += more
		}
		if _, err := connection.Write(answer); err != nil {
			return
		}
		if bytes.Contains(buffer[:length], closeWords) {
			return
		}
		length = 0
	}
}

// A connection whose first bytes have been read already.
type begunConn struct {
	net.Conn
	rest []byte
}

func (begun *begunConn) Read(into []byte) (int, error) {
	if len(begun.rest) == 0 {
		return begun.Conn.Read(into)
	}
	count := copy(into, begun.rest)
	begun.rest = begun.rest[count:]
	return count, nil
}
