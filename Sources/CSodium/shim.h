#pragma once
#include <sodium/crypto_core_ristretto255.h>
#include <sodium/crypto_hash_sha512.h>
#include <sodium/crypto_scalarmult_ristretto255.h>
#include <sodium/utils.h>
#include <sodium/version.h>
