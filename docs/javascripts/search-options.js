// The search takes a dash in front of a word for "without it"; here it is an option such as --chain.
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...others) {
  const query = typeof message?.data === "string" ? { data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") } : {};
  return post.call(this, { ...message, ...query }, ...others);
};
