#pragma once
#include <libxml/xmlversion.h>
// Where the library was built with ICU its headers bring ICU's, which Foundation has in another version. Only a type that
// nobody here looks into has a part of it.
#undef LIBXML_ICU_ENABLED
#include <libxml/parser.h>
#include <libxml/tree.h>
