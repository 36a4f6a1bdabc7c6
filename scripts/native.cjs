// dist/vendor/native.js: netlink's native part for this processor. A single executable has another one in its place.
module.exports = () => require(`../prebuilds/linux-${process.arch}/node.napi.node`);
