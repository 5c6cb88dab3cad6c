def table(*a):
    return ""
