#pragma once
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// Macros of OpenSSL, which Swift does not import.

static inline int relay_tls_set_oldest(SSL_CTX *context, int version) {
  return SSL_CTX_set_min_proto_version(context, version);
}

// Writes what the socket takes, from a buffer that may have moved since the last try.
static inline void relay_tls_write_in_parts(SSL *ssl) {
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

static inline int relay_tls_set_server_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name); }

// The first error that this thread's last call met; 0 for none.
static inline int relay_tls_error_reason(void) { return ERR_GET_REASON(ERR_peek_error()); }

static inline int relay_tls_no_passphrase(char *buffer, int size, int rwflag, void *data) { return 0; }

// A key under a passphrase fails to load: nobody is there to be asked for it.
static inline void relay_tls_ask_nobody(SSL_CTX *context) {
  SSL_CTX_set_default_passwd_cb(context, relay_tls_no_passphrase);
}
