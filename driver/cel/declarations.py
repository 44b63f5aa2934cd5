"""Declares every function that a device selector may call: names, overloads, types.

Source: the environment that k8s.io/dynamic-resource-allocation v0.37.2 (cel/compile.go) builds for stored expressions
from cel-go v0.29.2 and k8s.io/apiserver v0.37.2 (pkg/cel/environment/base.go).
tests/unit/driver/cel/test_declarations.py compares this table with the one that Kubernetes' own code prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from driver.cel.types import CelType, parse_type

__all__ = ["Overload", "functions"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. The target of a member function is the first parameter."""

    function: str
    id: str
    is_member: bool
    parameters: tuple[CelType, ...]
    result: CelType


_SHORT: Final = {
    "Duration": "google.protobuf.Duration",
    "Timestamp": "google.protobuf.Timestamp",
    "Quantity": "kubernetes.Quantity",
    "Semver": "kubernetes.Semver",
    "URL": "kubernetes.URL",
    "IP": "net.IP",
    "CIDR": "net.CIDR",
    "Format": "kubernetes.NamedFormat",
    "Authorizer": "kubernetes.authorization.Authorizer",
    "PathCheck": "kubernetes.authorization.PathCheck",
    "GroupCheck": "kubernetes.authorization.GroupCheck",
    "ResourceCheck": "kubernetes.authorization.ResourceCheck",
    "Decision": "kubernetes.authorization.Decision",
}

# "function  overload  (parameters) result"; a dot before the parameters marks a member. The order of a function's
# overloads is that in which they are tried: the first that fits decides what is inferred for an empty list.
_TABLE: Final = """
!_  logical_not  (bool) bool
-_  negate_double  (double) double
-_  negate_int64  (int) int
@in  in_list  (<A>, list(<A>)) bool
@in  in_map  (<A>, map(<A>, <B>)) bool
@not_strictly_false  not_strictly_false  (bool) bool
_==_  equals  (<A>, <A>) bool
_!=_  not_equals  (<A>, <A>) bool
_&&_  logical_and  (bool, bool) bool
_||_  logical_or  (bool, bool) bool
_?_:_  conditional  (bool, <A>, <A>) <A>
_%_  modulo_int64  (int, int) int
_%_  modulo_uint64  (uint, uint) uint
_*_  multiply_double  (double, double) double
_*_  multiply_int64  (int, int) int
_*_  multiply_uint64  (uint, uint) uint
_/_  divide_double  (double, double) double
_/_  divide_int64  (int, int) int
_/_  divide_uint64  (uint, uint) uint
_+_  add_bytes  (bytes, bytes) bytes
_+_  add_double  (double, double) double
_+_  add_duration_duration  (Duration, Duration) Duration
_+_  add_duration_timestamp  (Duration, Timestamp) Timestamp
_+_  add_timestamp_duration  (Timestamp, Duration) Timestamp
_+_  add_int64  (int, int) int
_+_  add_list  (list(<A>), list(<A>)) list(<A>)
_+_  add_string  (string, string) string
_+_  add_uint64  (uint, uint) uint
_-_  subtract_double  (double, double) double
_-_  subtract_duration_duration  (Duration, Duration) Duration
_-_  subtract_int64  (int, int) int
_-_  subtract_timestamp_duration  (Timestamp, Duration) Timestamp
_-_  subtract_timestamp_timestamp  (Timestamp, Timestamp) Duration
_-_  subtract_uint64  (uint, uint) uint
_[_]  index_list  (list(<A>), int) <A>
_[_]  index_map  (map(<A>, <B>), <A>) <B>
_[_]  optional_list_index_int  (optional_type(list(<V>)), int) optional_type(<V>)
_[_]  optional_map_index_value  (optional_type(map(<K>, <V>)), <K>) optional_type(<V>)
_[?_]  list_optindex_optional_int  (list(<V>), int) optional_type(<V>)
_[?_]  optional_list_optindex_optional_int  (optional_type(list(<V>)), int) optional_type(<V>)
_[?_]  map_optindex_optional_value  (map(<K>, <V>), <K>) optional_type(<V>)
_[?_]  optional_map_optindex_optional_value  (optional_type(map(<K>, <V>)), <K>) optional_type(<V>)
_?._  select_optional_field  (dyn, string) optional_type(<V>)
bool  bool_to_bool  (bool) bool
bool  string_to_bool  (string) bool
bytes  bytes_to_bytes  (bytes) bytes
bytes  string_to_bytes  (string) bytes
double  double_to_double  (double) double
double  int64_to_double  (int) double
double  string_to_double  (string) double
double  uint64_to_double  (uint) double
duration  duration_to_duration  (Duration) Duration
duration  string_to_duration  (string) Duration
dyn  to_dyn  (<A>) dyn
int  int64_to_int64  (int) int
int  double_to_int64  (double) int
int  duration_to_int64  (Duration) int
int  string_to_int64  (string) int
int  timestamp_to_int64  (Timestamp) int
int  uint64_to_int64  (uint) int
string  string_to_string  (string) string
string  bool_to_string  (bool) string
string  bytes_to_string  (bytes) string
string  double_to_string  (double) string
string  duration_to_string  (Duration) string
string  int64_to_string  (int) string
string  timestamp_to_string  (Timestamp) string
string  uint64_to_string  (uint) string
string  ip_to_string  (IP) string
string  cidr_to_string  (CIDR) string
timestamp  timestamp_to_timestamp  (Timestamp) Timestamp
timestamp  int64_to_timestamp  (int) Timestamp
timestamp  string_to_timestamp  (string) Timestamp
type  type  (<A>) type(<A>)
uint  uint64_to_uint64  (uint) uint
uint  double_to_uint64  (double) uint
uint  int64_to_uint64  (int) uint
uint  string_to_uint64  (string) uint
size  size_bytes  (bytes) int
size  bytes_size  .(bytes) int
size  size_list  (list(<A>)) int
size  list_size  .(list(<A>)) int
size  size_map  (map(<A>, <B>)) int
size  map_size  .(map(<A>, <B>)) int
size  size_string  (string) int
size  string_size  .(string) int
charAt  string_char_at_int  .(string, int) string
contains  contains_string  .(string, string) bool
endsWith  ends_with_string  .(string, string) bool
startsWith  starts_with_string  .(string, string) bool
find  string_find_string  .(string, string) string
findAll  string_find_all_string  .(string, string) list(string)
findAll  string_find_all_string_int  .(string, string, int) list(string)
format  string_format  .(string, list(dyn)) string
indexOf  string_index_of_string  .(string, string) int
lastIndexOf  string_last_index_of_string  .(string, string) int
join  list_join  .(list(string)) string
join  list_join_string  .(list(string), string) string
lowerAscii  string_lower_ascii  .(string) string
upperAscii  string_upper_ascii  .(string) string
matches  matches  (string, string) bool
matches  matches_string  .(string, string) bool
replace  string_replace_string_string  .(string, string, string) string
replace  string_replace_string_string_int  .(string, string, string, int) string
split  string_split_string  .(string, string) list(string)
split  string_split_string_int  .(string, string, int) list(string)
strings.quote  strings_quote  (string) string
substring  string_substring_int  .(string, int) string
substring  string_substring_int_int  .(string, int, int) string
trim  string_trim  .(string) string
distinct  list_distinct  .(list(<T>)) list(<T>)
first  list_first  .(list(<V>)) optional_type(<V>)
last  list_last  .(list(<V>)) optional_type(<V>)
flatten  list_flatten  .(list(list(<T>))) list(<T>)
flatten  list_flatten_int  .(list(dyn), int) list(dyn)
indexOf  string_index_of_string_int  .(string, string, int) int
lastIndexOf  string_last_index_of_string_int  .(string, string, int) int
indexOf  list_a_index_of_int  .(list(<A>), <A>) int
lastIndexOf  list_a_last_index_of_int  .(list(<A>), <A>) int
lists.range  lists_range  (int) list(int)
reverse  list_reverse  .(list(<T>)) list(<T>)
slice  list_slice  .(list(<T>), int, int) list(<T>)
sets.contains  list_sets_contains_list  (list(<T>), list(<T>)) bool
sets.equivalent  list_sets_equivalent_list  (list(<T>), list(<T>)) bool
sets.intersects  list_sets_intersects_list  (list(<T>), list(<T>)) bool
cel.@mapInsert  @mapInsert_map_key_value  (map(<K>, <V>), <K>, <V>) map(<K>, <V>)
cel.@mapInsert  @mapInsert_map_map  (map(<K>, <V>), map(<K>, <V>)) map(<K>, <V>)
optional.none  optional_none  () optional_type(<V>)
optional.of  optional_of  (<V>) optional_type(<V>)
optional.ofNonZeroValue  optional_ofNonZeroValue  (<V>) optional_type(<V>)
optional.unwrap  optional_unwrap  (list(optional_type(<V>))) list(<V>)
unwrapOpt  optional_unwrapOpt  .(list(optional_type(<V>))) list(<V>)
hasValue  optional_hasValue  .(optional_type(<V>)) bool
or  optional_or_optional  .(optional_type(<V>), optional_type(<V>)) optional_type(<V>)
orValue  optional_orValue_value  .(optional_type(<V>), <V>) <V>
value  optional_value  .(optional_type(<V>)) <V>
includes  list_includes_dyn_dyn  .(dyn, dyn) bool
quantity  string_to_quantity  (string) Quantity
isQuantity  is_quantity_string  (string) bool
sign  quantity_sign  (Quantity) int
isInteger  quantity_is_integer  .(Quantity) bool
asInteger  quantity_get_int  .(Quantity) int
asApproximateFloat  quantity_get_float  .(Quantity) double
isGreaterThan  quantity_is_greater_than  .(Quantity, Quantity) bool
isLessThan  quantity_is_less_than  .(Quantity, Quantity) bool
compareTo  quantity_compare_to  .(Quantity, Quantity) int
add  quantity_add  .(Quantity, Quantity) Quantity
add  quantity_add_int  .(Quantity, int) Quantity
sub  quantity_sub  .(Quantity, Quantity) Quantity
sub  quantity_sub_int  .(Quantity, int) Quantity
semver  string_to_semver  (string) Semver
semver  string_bool_to_semver  (string, bool) Semver
isSemver  is_semver_string  (string) bool
isSemver  is_semver_string_bool  (string, bool) bool
isGreaterThan  semver_is_greater_than  .(Semver, Semver) bool
isLessThan  semver_is_less_than  .(Semver, Semver) bool
compareTo  semver_compare_to  .(Semver, Semver) int
major  semver_major  .(Semver) int
minor  semver_minor  .(Semver) int
patch  semver_patch  .(Semver) int
ip  string_to_ip  (string) IP
ip  cidr_ip  .(CIDR) IP
isIP  is_ip  (string) bool
ip.isCanonical  ip_is_canonical  (string) bool
family  ip_family  .(IP) int
isGlobalUnicast  ip_is_global_unicast  .(IP) bool
isLinkLocalMulticast  ip_is_link_local_multicast  .(IP) bool
isLinkLocalUnicast  ip_is_link_local_unicast  .(IP) bool
isLoopback  ip_is_loopback  .(IP) bool
isUnspecified  ip_is_unspecified  .(IP) bool
cidr  string_to_cidr  (string) CIDR
isCIDR  is_cidr  (string) bool
containsCIDR  cidr_contains_cidr_string  .(CIDR, string) bool
containsCIDR  cidr_contains_cidr  .(CIDR, CIDR) bool
containsIP  cidr_contains_ip_string  .(CIDR, string) bool
containsIP  cidr_contains_ip_ip  .(CIDR, IP) bool
masked  cidr_masked  .(CIDR) CIDR
prefixLength  cidr_prefix_length  .(CIDR) int
url  string_to_url  (string) URL
isURL  is_url_string  (string) bool
getEscapedPath  url_get_escaped_path  .(URL) string
getHost  url_get_host  .(URL) string
getHostname  url_get_hostname  .(URL) string
getPort  url_get_port  .(URL) string
getQuery  url_get_query  .(URL) map(string, list(string))
getScheme  url_get_scheme  .(URL) string
format.named  format-named  (string) optional_type(Format)
validate  format-validate  .(Format, string) optional_type(list(string))
allowed  decision_allowed  .(Decision) bool
check  pathcheck_check  .(PathCheck, string) Decision
check  resourcecheck_check  .(ResourceCheck, string) Decision
error  decision_error  .(Decision) string
errored  decision_errored  .(Decision) bool
fieldSelector  authorizer_fieldselector  .(ResourceCheck, string) ResourceCheck
group  authorizer_group  .(Authorizer, string) GroupCheck
labelSelector  authorizer_labelselector  .(ResourceCheck, string) ResourceCheck
name  resourcecheck_name  .(ResourceCheck, string) ResourceCheck
namespace  resourcecheck_namespace  .(ResourceCheck, string) ResourceCheck
path  authorizer_path  .(Authorizer, string) PathCheck
reason  decision_reason  .(Decision) string
resource  groupcheck_resource  .(GroupCheck, string) ResourceCheck
serviceAccount  authorizer_serviceaccount  .(Authorizer, string, string) Authorizer
subresource  resourcecheck_subresource  .(ResourceCheck, string) ResourceCheck
"""

_NAMED_FORMATS: Final = (  # noqa: SIM905 - words read best as words
    "byte date datetime dns1035Label dns1035LabelPrefix dns1123Label dns1123LabelPrefix dns1123Subdomain "
    "dns1123SubdomainPrefix labelValue qualifiedName uri uuid"
).split()
_COMPARABLE: Final = ("int", "uint", "double", "bool", "Duration", "Timestamp", "string", "bytes")
_NUMBERS: Final = {"int": "int64", "uint": "uint64", "double": "double"}
_TIME_PARTS: Final = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}


def _families() -> Iterator[str]:
    """Yield the lines of overloads that differ only in one type."""
    for operator, name in (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals")):
        yield f"_{operator}_  {name}_bool  (bool, bool) bool"
        for first, one in _NUMBERS.items():
            yield f"_{operator}_  {name}_{one}  ({first}, {first}) bool"
            for second in sorted(set(_NUMBERS) - {first}):
                yield f"_{operator}_  {name}_{one}_{_NUMBERS[second]}  ({first}, {second}) bool"
        for type_ in ("string", "bytes", "Timestamp", "Duration"):
            yield f"_{operator}_  {name}_{type_.lower()}  ({type_}, {type_}) bool"
    for type_ in _COMPARABLE:
        short, full = type_.lower(), _SHORT.get(type_, type_)
        yield f"isSorted  list_{short}_is_sorted_bool  .(list({type_})) bool"
        yield f"max  list_{short}_max_{short}  .(list({type_})) {type_}"
        yield f"min  list_{short}_min_{short}  .(list({type_})) {type_}"
        yield f"sort  list_{full}_sort  .(list({type_})) list({type_})"
        yield f"@sortByAssociatedKeys  list_{full}_sortByAssociatedKeys  .(list(<T>), list({type_})) list(<T>)"
    for type_ in ("int", "uint", "double", "Duration"):
        yield f"sum  list_{type_.lower()}_sum_{type_.lower()}  .(list({type_})) {type_}"
    for function, part in _TIME_PARTS.items():
        yield f"{function}  timestamp_to_{part}  .(Timestamp) int"
        zoned = "tz" if function == "getSeconds" else "with_tz"
        yield f"{function}  timestamp_to_{part}_{zoned}  .(Timestamp, string) int"
    for part in ("Hours", "Minutes", "Seconds", "Milliseconds"):
        yield f"get{part}  duration_to_{part.lower()}  .(Duration) int"
    for name in _NAMED_FORMATS:
        yield f"format.{name}  format.{name}  () Format"


@cache
def functions() -> dict[str, tuple[Overload, ...]]:
    """Return the overloads by the function's name."""
    table: dict[str, tuple[Overload, ...]] = {}
    for line in (*_TABLE.strip().splitlines(), *_families()):
        function, identifier, signature = line.split("  ")
        parameters, _, result = signature.rpartition(") ")
        is_member = parameters.startswith(".")
        tuple_ = parse_type(_expanded("tuple" + parameters.removeprefix(".") + ")"))
        types = tuple(type_ for type_ in tuple_.params if type_.name)
        overload = Overload(function, identifier, is_member, types, parse_type(_expanded(result)))
        table[function] = (*table.get(function, ()), overload)
    return table


def _expanded(text: str) -> str:
    """Write abbreviated types in full."""
    word, out = "", ""
    for character in text + " ":
        if character.isalnum() or character in "._":
            word += character
        else:
            out += _SHORT.get(word, word) + character
            word = ""
    return out.strip()
